"""Every threshold and prior of the analysis, in one place, each with its reason.

None of them is fitted to a data set: they are ratios, counts of repetitions, or physical sizes with a source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

#: Records that last for longer hold more than a message: the largest bucket of gradients, 2 GB, takes 1.6 s at
#: 10 Gbit/s.
_LONGEST_MESSAGE_S = 2.0


@dataclass(frozen=True, slots=True)
class ObserveParams:
    """How records become bursts of payload."""

    #: IPv4 + TCP + timestamp option (RFC 791, 9293, 7323): what a TCP segment carries beside data.
    tcp_header_bytes: int = 52
    #: Ethernet + FCS + IPv4 + UDP + BTH + ICRC (IBTA 1.6, annex A17): what a RoCEv2 packet carries beside data.
    roce_header_bytes: int = 62
    #: Records of one message cut apart by queue pairs, an active timeout or a millisecond clock lie closer than this;
    #: a GPU computes for longer between two messages.
    burst_gap_ns: int = 1_000_000
    #: A direction with less than this share of its pair's payload carries acknowledgements only: TCP acknowledges every
    #: other segment with 52 of 2 x 1500 bytes (1.7 % of bytes, next to no payload).
    acknowledgement_share: float = 0.01
    #: unless most of its payload is in records of which most bytes are: a ring one way may run beside a thin tree.
    data_share: float = 0.5
    #: Bursts smaller than this share of the pair's typical one are control messages beside the data ...
    control_share: float = 0.005
    #: ... unless they are as large as data: barriers, norms and metadata take bytes to kilobytes, while tokens for an
    #: expert are megabytes beside gradients of gigabytes on the same pair.
    control_bytes: int = 1_000_000
    #: ... where the typical ones are messages: records that run on for longer hold many of them.
    message_s: float = _LONGEST_MESSAGE_S


@dataclass(frozen=True, slots=True)
class ClockParams:
    """How far exporters' clocks are off."""

    #: Offsets are looked for within this of none: a host that follows NTP is well inside, and few messages of one
    #: queue pair come so close together. NetFlow v9 headers in whole seconds shift times by up to 0.6 s.
    near_s: float = 1.0
    #: An offset that explains this share of what both saw is it, and none is looked for beyond; export loses some 2 %.
    near_share: float = 0.9
    #: ... else within this. Larger ones are mistakes of time zones or of years, which no window of a minute shows.
    far_s: float = 10.0
    #: How closely observations of one flow may agree: by what a packet waits between switches, in milliseconds, or
    #: where packets are sampled or clocks drift.
    widths_s: tuple[float, ...] = (1e-4, 1e-3, 1e-2)
    #: Observations whose bytes or packets agree as well are likelier of one flow: headers are 1 % of a full packet.
    alike_tolerance: float = 0.02
    #: ... and others count for less, but count: exporters that cut or sample records agree on none.
    unlike_weight: float = 0.25
    #: With fewer matches, or matches of a smaller share of what both can have seen, nothing is known. Traffic that
    #: moves to another path, where both saw the same 5-tuple but never the same flow, matches by chance.
    min_matches: int = 8
    min_share: float = 0.3
    #: Log likelihood ratio of the matches against chance; some 10^5 places are tried for each pair.
    min_evidence: float = 25.0
    #: A pair whose offset differs by more from those of all others is mistaken.
    agreement_s: float = 0.005
    #: Switches of one path see a flow some such time apart, its packets being queued.
    path_delay_s: float = 5e-5
    #: An offset of more standard deviations than this is corrected.
    min_score: float = 5.0
    #: What was found of a clock holds for so long: one that drifts by 50 parts in a million is off by 0.2 s then.
    remembered_s: int = 3600
    #: Exporters of one 5-tuple that are compared with one another; fabrics have paths of up to five or seven switches.
    max_switches: int = 8
    #: Observations looked at for each pair of exporters: the offset of a thousand is sharp.
    max_observations: int = 1000
    #: Candidates looked at for all pairs together, and for each at the least: some tenths of a second.
    max_candidates: int = 200_000
    min_candidates: int = 1000


@dataclass(frozen=True, slots=True)
class TimeoutParams:
    """When exporters close their records."""

    #: Records looked at in a window; the shortest silence of so many is close to the shortest of all.
    max_records: int = 100_000
    #: A record of at least this share of its exporter's longest may have been cut by the active timeout: a flow that
    #: pauses while it is cut gives one shorter than the timeout by up to the pause.
    maybe_cut_share: float = 0.5
    #: Cut records agree in length to this: exporters look for them once a second or more often, of 60 s.
    cut_tolerance: float = 0.02
    #: With fewer cuts it may be chance that two records follow one another at once.
    min_cuts: int = 3
    #: ... and so many of the longest records are cut, but for those whose next one is lost: no message is as long.
    cut_share: float = 0.9
    #: Records pile up at an active timeout: so many times as many as in a band as wide below it.
    pile_up: float = 3.0
    #: Silences in each quarter of an octave above the shortest that make it an edge: with fewer, chance leaves gaps ...
    min_in_part: int = 8
    #: ... and how many the first sixteenth holds, over a sixteenth of all: where a peak begins there are few.
    first_part_share: float = 1.0


@dataclass(frozen=True, slots=True)
class MergedParams:
    """Which records run on over many steps, and whose traffic shows training all the same."""

    #: A flow whose records leave no more than this share of its time uncovered shows no pause: forward pass and
    #: optimizer pause gradients for 15 % of a step at the least (`DivideParams.min_silence_share`), ...
    min_cover: float = 0.9
    #: ... for so long that it is no bulk transfer between two pauses: 2 GB of a checkpoint at 1 Gbit/s take 16 s,
    min_span_s: float = 30.0
    #: ... in records longer than any message.
    min_record_s: float = _LONGEST_MESSAGE_S
    #: Heartbeats run on as well, in packets a second. One activation of 4 MiB in the longest steps known, of 46 s, is
    #: 90 kB/s.
    min_rate_bytes_s: float = 5e4
    #: Pairs of one role move equally many bytes a second, up to a step at either end of one record of some steps; and
    #: so much a server sends more or less than it receives.
    volume_tolerance: float = 0.15
    #: Fewer pairs than this may be equal by chance.
    min_alike: int = 4
    #: Servers of a role that receive what they send: all but those of a lost record.
    min_balanced: float = 0.9
    #: Endpoints of rings, trees and chains have so many partners, or this share of the other servers; meshes, as of a
    #: shuffle, a replicated store or a gossip, have all.
    few_partners: int = 2
    partner_share: float = 0.5
    #: A pipeline returns as many bytes as it sends (as `IdentifyParams.one_way_share`).
    answered_share: float = 0.5
    #: Confidence that a merged link between data-parallel groups is of a pipeline, where it is part of a longer chain,
    #: which no collective is ...
    chain_confidence: float = 0.9
    #: ... and where it is not: tensor groups seldom leave a server.
    lone_link_confidence: float = 0.7
    #: ... and that one inside a data-parallel group is of that group.
    group_confidence: float = 0.8
    #: Of a merged pair of which nothing shows what it is for.
    unknown_confidence: float = 0.3
    #: Idle timeout that tells steps apart where nothing else shows which: gradients pause for 15 % of a step at the
    #: least (`DivideParams.min_silence_share`), and published steps of large jobs take 2 to 46 s; a tenth of 1 s.
    step_timeout_s: float = 0.1
    #: ... and that tells the messages inside a step apart: at 5 ms exporters were seen to resolve 99 to 100 % of gaps.
    message_timeout_s: float = 0.005
    #: An idle timeout has to be this share of the silence that it should show: silences vary, and exporters look at
    #: their flows only now and then.
    safe_share: float = 0.5


@dataclass(frozen=True, slots=True)
class RecogniseParams:
    """Which pairs make a job."""

    #: Traffic of training recurs. A pair seen in fewer separate bursts is a start-up mesh or a broadcast.
    min_bursts: int = 3
    #: ... and moves its payload over at least this share of the time in which its endpoints move theirs,
    min_spread: float = 0.5
    #: not counting this share at either end, or a barrier at the end would stretch a broadcast at the beginning.
    payload_tail: float = 0.05
    #: A silence that a pair repeats so often is usual for it; a span of traffic holds fewer restarts and long pauses.
    usual_repeats: int = 4
    #: A pair that is silent for so many times its longest usual silence is away: steps vary less.
    absence_silences: float = 1.5
    #: ... and what it moves in between is training where it is so much of a mean burst, at the least.
    min_presence: float = 0.5
    #: Ranks that begin meet one another, an endpoint so many others at the least; those that pause do not.
    min_met: int = 3
    #: ... and so many times what usually meets in as much time: strays come now and then.
    more_met: float = 2.0
    #: After an absence other bursts, by their quartiles, are farther apart than this: lost records take less.
    same_amount: float = 0.1
    #: ... on more than this share of the pairs: a pipeline's messages may be alike where its gradients are not.
    changed_share: float = 0.1
    #: A pair with a smaller share of the payload of either endpoint's main pair is bookkeeping beside the training.
    min_pair_share: float = 1e-4
    #: Rails of one job stand on much the same servers: the smaller set shares so much with the larger. LLMPrism (IV-A)
    #: asks for Jaccard similarity, which rails of rings that partly hide inside servers do not reach.
    server_overlap_min: float = 0.5
    #: Rails of one job step together: their activity over time correlates. Jobs that merely share servers do not.
    co_activity_min: float = 0.6
    #: A job known for so many steps takes in no other known one (as `ContinueParams.settle_steps`).
    settled_steps: int = 64
    #: ... and lets go of a part only where its likeness falls below this share of what joins parts: both thresholds
    #: alike, a slow GPU would split a job that is near them.
    parting_share: float = 0.5
    #: Parts that step together for so many steps ...
    lockstep_steps: int = 24
    #: ... at a distance that varies by less than this share of what chance adds up to are one job, whatever their
    #: activity looks like: of two that run by themselves it seldom varies by less than half of that.
    lockstep_share: float = 0.1
    #: Parts that took over from one job, at once and on the same servers, are most probably that job begun anew, and
    #: those of one job belong together: as many steps are enough as say what each moves (`succession`).
    lockstep_again_steps: int = 3
    #: Parts of one tenant on different servers are one job where their activity is as good as the same.
    unison_min: float = 0.9
    #: Parts whose records run on show no activity; they are one job where servers move the same volumes in both.
    same_volume_min: float = 0.8
    #: Bins of the activity series; enough for some tens of steps with several bins each.
    activity_bins: int = 2048
    #: A component is the continuation of a known job when at least half of the smaller endpoint set is shared.
    identity_min: float = 0.5


@dataclass(frozen=True, slots=True)
class IdentifyParams:
    """Which pairs are data-parallel and which pipeline-parallel."""

    #: A link whose weaker direction carries less than this share of the stronger is a ring edge: a pipeline returns
    #: gradients of the size of the activations it sent.
    one_way_share: float = 0.5
    #: Links of one class carry equal volume up to lost records and a step cut by the edge of the data ...
    class_payload_tolerance: float = 0.15
    #: ... or a lost burst, where there are so many: of one or two, half and all of one size are in one class then.
    least_bursts: int = 3
    #: ... in about as many bursts; TCP joins and splits them.
    class_bursts_tolerance: float = 0.5
    #: Share of unanswered bursts at which pipeline and collective are equally likely: more than records get lost
    #: (2 %), less than the first and last message of a step with 16 microbatches.
    unanswered_even: float = 0.05
    #: Keeps the logarithm finite where every burst is answered at once.
    unanswered_floor: float = 0.005
    #: Bursts slower than this share of the fastest collective's are mostly silence: ranks contend for a link by some
    #: tens, and compute for much longer between two messages than one takes ...
    sparse_share: float = 0.03
    #: ... where they cover this share of the time: a pipeline is at work during most of a step, and a collective that
    #: closes it is not.
    sparse_cover: float = 0.25
    #: Log-odds for each factor e of unanswered bursts.
    answer_weight: float = 2.0
    #: An inner collective moves data so many times as often as the one that closes the step, at the least,
    inner_rate: float = 3.0
    #: and where both run over the same pairs, messages so many times smaller: tokens for an expert are some MB to 100,
    #: gradients up to GB, while those of buckets and of layers vary by less from one size to the next.
    inner_size_gap: float = 4.0
    #: and fills this share of the time between two closings; gradients reduced during the backward fill two thirds.
    inner_coverage: float = 0.75
    #: Bursts of one message size agree better than this.
    same_size_tolerance: float = 0.01
    #: A size of which more than this share is moved in closings belongs to them.
    closing_only_share: float = 0.5
    #: Closing bursts nearer than this share of the mean time between two closings are of one: a step's gradients and
    #: parameters follow on one another, and forward and backward, which part two closings, take most of a step.
    one_closing_share: float = 0.1
    #: A class of neighbouring sizes that is wider is none: its sizes vary freely, and lie close by being many.
    max_size_spread: float = 0.05
    #: A pair of a tensor group or a context ring has one size or two, half of its bursts each. One that fewer than this
    #: share have, or so few, is a stray; so is what a pair moves in fewer than this share of the closings ...
    settled_share: float = 0.2
    stray_sizes: int = 2
    #: ... and sizes are settled where most bursts have such a one: lost records and joined bursts are few.
    min_settled: float = 0.5
    #: Half way between the one size that a tensor group reduces and the two of a context ring: means over pairs.
    several_sizes: float = 1.5
    #: No amount of one kind of evidence is worth more than this.
    certain_log_odds: float = 6.0
    #: ... and what the graph says is worth less than what a link itself shows.
    graph_log_odds: float = 2.0


@dataclass(frozen=True, slots=True)
class DivideParams:
    """Where steps end."""

    #: Bursts of one communicator closer than this are one (as `ObserveParams.burst_gap_ns`).
    burst_gap_ns: int = 1_000_000
    #: Pairs of one communicator that carry equal volume, up to lost records and a step cut by the edge of the data (as
    #: `IdentifyParams.class_payload_tolerance`), move it in the same bursts.
    alike_tolerance: float = 0.15
    #: Bursts in a step, as a prior: some ten. The posterior depends on it only logarithmically.
    expected_run: float = 10.0
    #: Posterior mass of a new run above which BOCD is taken to propose a boundary (LLMPrism, section IV-C).
    changepoint_mass: float = 0.5
    #: Two classes of gaps part better than one uniform law cut in half (see `robust.two_class_split`).
    min_separation: float = 0.3
    #: Relative standard deviation of the payload of a step: losses and control messages, not training, change it.
    quantum_tolerance: float = 0.05
    #: A coarser cut wins over a finer one that is less than this much more regular.
    regularity_margin: float = 0.02
    #: ... and one that is so much more regular, because sizes recur with it, need not be much more even.
    evident_gain: float = 0.1
    #: ... unless less than this share of its payload is regular.
    min_regular_share: float = 0.5
    #: What has been seen less often than this does not repeat.
    min_repeats: int = 3
    #: Of steps at least this share of the payload is regular, lost records and all; of buckets of several sizes, less.
    min_plain_share: float = 0.75
    #: Steps vary less than this, as the mean deviation from the median over it, jitter and sequence lengths included.
    max_uneven: float = 0.25
    #: A link whose pieces are so many times smaller than those of others of its pipeline is cut into microbatches; half
    #: of a step and more is a step with lost messages.
    in_parts: float = 1.5
    #: So many pieces in a row show a pace of their own; of fewer any split would be even.
    min_pace_steps: int = 4
    #: Forward pass and optimizer take at least this share of a step, and move no gradients; a shorter silence does
    #: not mark a step.
    min_silence_share: float = 0.15
    #: ... nor does one where half of all silences are longer than this share of it. Of k buckets reduced during the
    #: backward the last is followed by a forward as well, which is a third of a backward at the least (with activations
    #: computed again): 1 / (1 + k / 3) is less from ...
    alike_share: float = 0.5
    #: ... so many buckets on.
    min_throughout: int = 4
    #: Largest over smallest burst of a period above which gathers and scatters are told apart by size.
    sizes_differ: float = 1.3
    #: What the silence between forward and backward counts for: it is of both, and of neither.
    turn_weight: float = 0.25
    #: Silences of two microbatches are the same where the bytes before them differ by less than this share of a burst.
    same_place_share: float = 0.1
    #: Periods of sizes and gaps are steps where they are so much more even.
    even_gain: float = 0.7
    #: How well sizes must repeat for their period to count.
    min_period_strength: float = 0.5
    #: Microbatches looked for within a step.
    max_microbatches: int = 16
    #: The silence after the last of several microbatches is so much longer than those after the others.
    silence_contrast: float = 1.05
    #: With fewer steps than this nobody can tell whether they are alike.
    min_judged_steps: int = 8
    #: Steps less alike than this, beyond chance, are no training: serving moves what its clients ask for, when they do.
    min_regularity: float = 0.4
    #: The most bursts of one communicator in a step.
    max_bursts: int = 512
    #: Log-odds of all the gaps can say; small beside a whole burst too many or too few.
    gap_weight: float = 0.5
    #: ... and of what follows a burst: what an endpoint sends next says more than how long it sends nothing.
    followed_weight: float = 2.0
    #: A gap shorter than this share of a link's long ones (its upper quartile) is two messages passing each other.
    passing_share: float = 0.25
    #: Log of how much faster activations follow one another than gradients, at the least; a backward pass takes some
    #: two forward ones, log 2 = 0.7.
    min_haste: float = 0.2
    #: Log-odds of the place in a period that ends it.
    period_log_odds: float = 2.0
    #: Log-odds of a pipeline link at rest.
    balance_log_odds: float = 2.0
    #: Ends of communicators closer than this share of a step are one end.
    agreement_share: float = 0.25
    #: ... and so are ends of different communicators, where the later comes within this share of the time until the
    #: earlier ends again: a slow GPU delays its own stage.
    delay_share: float = 0.75
    #: A communicator that misses the last step is waited for where it usually ends so much of a step after the data:
    #: more than collectives jitter.
    jitter_share: float = 0.05
    #: A piece that follows so much of a step later is not of the collective before it: that takes less.
    stub_gap: float = 0.5
    #: Share of the communicators that must confirm a step.
    quorum: float = 0.5


@dataclass(frozen=True, slots=True)
class WorkParams:
    """Which rank works longer than its peers."""

    #: An input comes before what is made of it in this share of all cases, lost records and clocks included.
    causal_share: float = 0.95
    #: ... and by at least this share of an operation, for something is made of it in between.
    operation_share: float = 0.5
    #: Ranks that exchange data for more than this share of their work inside it do so beside it.
    max_exchange_share: float = 0.5
    #: A pair that moves as much as usual, but for lost records, moves it all.
    same_size_tolerance: float = 0.01
    #: So many steps back are looked at together: a GPU slower by little shows over several.
    widths: tuple[int, ...] = (2, 4, 8, 16)
    #: Ranks of a role needed for one of them to stand out.
    min_peers: int = 3
    #: Work so much longer matters: GPUs of one kind differ by 1 to 3 %.
    min_excess: float = 0.05
    #: The least spread between ranks believed in, as a share of their work.
    jitter_floor: float = 0.02
    #: Corrected for all comparisons made in 1,000 GPU-hours: one false alarm in 100 times as many, were jitter normal.
    min_score: float = 2.3
    #: What a rank worked is remembered for so long: what gets slower by 10 % in ten minutes does so by next to nothing
    #: in the steps that a window looks at.
    remembered_s: int = 3600
    #: A GPU is slow in so many steps at the least; a hiccup is not a slow GPU.
    min_slow_steps: int = 2
    #: A rank that costs the job less than this share of its time hides behind others.
    min_lost_share: float = 0.01
    #: Steps outside an episode that say what steps cost without it.
    min_steps_beside: int = 5
    #: So many normal steps end an episode.
    close_after_steps: int = 3
    #: Ranks of one server that exceed by this share of the slowest one's excess are slow together with it.
    together_share: float = 0.5
    #: Rows of evidence kept with a finding.
    evidence_rows: int = 64


@dataclass(frozen=True, slots=True)
class PaceParams:
    """Which part of the network takes longer for its bytes than others."""

    #: Messages of one size agree better than this.
    same_size_tolerance: float = 0.05
    #: Of a group those pairs tell its pace that move at least this share of what any of them does.
    bulk_share: float = 0.1
    #: Ends that are closer than this share of a step's bytes, and this part of a usual burst, are of one operation:
    #: headers and lost packets make less of a difference, the next operation more.
    same_turn_share: float = 0.005
    same_turn_part: float = 0.25
    #: Of what a pair moves in a step more than this share has to be seen since it can move; less says little of all.
    min_seen_share: float = 0.5
    #: What moves so many times its usual bytes in a step, or so small a part, is not compared; two steps are twice.
    max_step_payload: float = 1.5
    #: Pairs, or groups, that move alike, needed for one of them to stand out.
    min_peers: int = 4
    #: So many steps back are looked at together.
    widths: tuple[int, ...] = (2, 4, 8)
    #: The least spread of a logarithm believed in: flows contend for links by chance.
    jitter_floor: float = 0.05
    #: What takes so much longer matters: a link with 80 % of its bandwidth left.
    min_excess: float = 0.2
    #: Corrected for all comparisons made in 1,000 GPU-hours (as `WorkParams.min_score`).
    min_score: float = 2.3
    #: What explains this share of what the best candidate explains can't be told from it.
    tie_share: float = 0.9
    #: Groups on the same servers that exceed by this share of the slowest one's excess are slow alike.
    together_share: float = 0.7
    #: So many are accused at once at the most.
    max_culprits: int = 4
    #: As in `WorkParams`.
    min_slow_steps: int = 2
    min_steps_beside: int = 5
    close_after_steps: int = 3
    #: Rows of evidence kept with a finding.
    evidence_rows: int = 64


@dataclass(frozen=True, slots=True)
class DiagnoseParams:
    """What is slow, and how bad it is."""

    work: WorkParams = field(default_factory=WorkParams)
    pace: PaceParams = field(default_factory=PaceParams)

    #: Robust deviations from the usual: the paper's k, above its 3 because thousands of steps are compared an hour.
    min_score: float = 5.0
    #: A step this much longer than usual matters to an operator; compute jitter is 1 to 3 %.
    min_excess: float = 0.10
    #: The least spread believed in, as a share of the usual step: that jitter.
    jitter_floor: float = 0.02
    #: Healthy steps that make a usual one; the newest of them count.
    baseline_steps: int = 64
    #: With fewer steps nothing is usual yet.
    min_baseline_steps: int = 8
    #: So many steps together show a drift, by which they are longer than the oldest steps known by this share: half of
    #: what a single step needs.
    drift_steps: int = 16
    min_drift: float = 0.05
    #: Slow steps that nobody is to blame for are usual from so many on that are alike.
    regime_steps: int = 16
    #: Steps that move so much more than those before do other work (as `StopParams.more_work`).
    other_work: float = 0.1
    #: Ranks are seen to be ready one after the other where the last one is by so much of a step later than most, or by
    #: so many seconds: what all begin at once, after a barrier, they begin within the time that packets cross a fabric.
    ready_spread: float = 0.002
    ready_spread_s: float = 0.001
    #: ... and by so many ticks of the exporters' clocks.
    ready_ticks: float = 2.0
    #: So many normal steps end an episode.
    close_after_steps: int = 3
    #: Lost time is graded over at least so many steps: one slow step in twenty is no more than that.
    severity_steps: int = 20
    #: Lost shares of a job's time from which a person should look, and look now.
    warning_slowdown: float = 0.05
    critical_slowdown: float = 0.20
    #: A GPU is named where it was last to be ready in this share of the slow steps ...
    min_culprit_share: float = 0.6
    #: ... and chance would make any of them so in fewer than one episode in a thousand.
    max_culprit_chance: float = 1e-3
    #: Peers (groups, switches) needed for one of them to stand out.
    min_peers: int = 4
    #: A peer this much slower than the others matters ...
    min_peer_excess: float = 0.25
    #: ... where it is so for so many steps.
    min_peer_steps: int = 3
    #: A data-parallel group that moves so many more bytes than the others ...
    min_imbalance: float = 0.2
    #: ... in this share of the steps, lost records included, is larger by the model's division ...
    imbalance_steps_share: float = 0.9
    #: ... which is worth a word where its additional bytes take this share of a step (as `WorkParams.min_lost_share`).
    min_imbalance_share: float = 0.01
    #: What is known to be larger stays so down to this share of the above.
    imbalance_hysteresis: float = 0.5
    #: The least spread among peers believed in: collectives contend for links by chance.
    peer_jitter_floor: float = 0.05
    #: A group that moves so many times its usual bytes in a step is not compared in it; two steps are twice.
    max_step_payload: float = 1.5
    #: Flow records shown with a finding: enough to look it up, few enough to read.
    sample_flows: int = 5
    #: Bursts of a pair in a window before its pace counts for its switches.
    min_pair_bursts: int = 3
    #: Rows of evidence kept with a finding.
    evidence_rows: int = 64


@dataclass(frozen=True, slots=True)
class StopParams:
    """When a job stands still, and what that is called.

    Calibrated to at most one false stop of a warning or more in 1,000 GPU-hours of healthy training, with its pauses:
    `make accuracy ARGS='--parts faults'` counts them, by kind of finding and the thresholds that settle it.
    """

    #: Steps that make a usual rest; a few are enough, because rests of a job vary less than its steps.
    min_steps: int = 4
    #: ... the newest of them count.
    recent_steps: int = 16
    #: A rest is a stop where it exceeds the usual one by so much of a step; a GPU at half its speed, which spreads its
    #: delay over the microbatches, does not make one ...
    min_excess_steps: float = 0.5
    #: ... nor where all computing is one rest, which that makes twice as long at most.
    min_excess_rests: float = 1.0
    #: A rest of all at once accounts for all that its step takes longer; where it is only the longest of several rests,
    #: or others work on beside it, somebody is slow. Steps vary by some hundredths.
    min_explained: float = 0.9
    #: Endpoints that begin later than the others by this share of the stop are waited for ...
    late_share: float = 0.5
    #: ... unless they are more than this share of all: then the job paused as a whole.
    max_late_share: float = 0.5
    #: A job that pauses as a whole between two steps saves or evaluates, which is no fault; one of so many steps, and
    #: seconds (of `saving_hang_s` where something moves to or from other machines), is looked into.
    long_pause_steps: float = 4.0
    long_pause_s: float = 5.0
    #: A stop that loses less is a hiccup, as of garbage collection or a page that is read: nobody need look.
    min_lost_s: float = 1.0
    #: Of a start-up mesh nearly every rank meets every other; of lost records and strays few meet anybody.
    mesh_share: float = 0.5
    #: What two who train exchange is training where it is so much of what they usually do at once.
    min_work_share: float = 0.1
    #: By so many steps a life that began anew is told (as `RecogniseParams.min_bursts`); if not, it only seemed so.
    told_anew_steps: int = 3
    #: Bytes beyond those of a usual step that are other work, an evaluation say: lost records never add any.
    more_work: float = 0.1
    #: ... unless so many steps in a row move more: then that is their work.
    lasting_steps: int = 4
    #: Pauses that come so often at equal distance are a habit ...
    habit_times: int = 3
    #: ... with at most this share of them left out or of another length.
    habit_stray_share: float = 0.2
    #: Lengths of pauses of one habit differ by less than this factor: storage is shared.
    habit_factor: float = 2.0
    #: Steps that are this much longer than usual are looked at for habits.
    long_step: float = 0.1
    #: What is sent in so many steps is usual, lost records included: steps of two kinds may take turns.
    usual_share: float = 0.4
    #: The first send that is overdue names the suspects, with those due within this share of a step.
    together_share: float = 0.02
    #: A suspect has missed more sends than records that are lost by chance explain, in more than one of so many stops:
    #: of 512 ranks with two sends a step, 2 % of which are lost, one in five steps misses both of some rank.
    max_lost_chance: float = 0.01
    #: Records of other jobs may come some seconds earlier: a silence that is shorter is none.
    min_silence_s: float = 5.0
    #: A job that stops in the middle of a step hangs, data loaders and checkpoints come between steps: a send that is
    #: overdue for so many seconds, and for as long as makes a rest a stop, is not only late, ...
    hang_s: float = 5.0
    #: ... nor where data may be waited for: some seconds more say that a GPU or a network that is slow does not do, ...
    idle_hang_s: float = 10.0
    #: ... or for storage, where something moves to or from other machines.
    saving_hang_s: float = 60.0
    #: ... so many times what usually does, in the time before.
    more_beside: float = 2.0
    #: What is saved or loaded is no less than this share of what a step moves: gradients are as large as the model's
    #: weights. Strays and control messages are less.
    min_saved_share: float = 0.01
    #: An exporter that sends nothing more was lost if it should have shown so many other records since.
    min_missed_records: float = 5.0
    #: ... or while so many steps go on of a job that it always saw.
    min_missed_steps: int = 3


@dataclass(frozen=True, slots=True)
class ContinueParams:
    """How much of the past a window looks at."""

    #: A job is looked at from its beginning until so many of its steps are known; what it is has settled by then.
    settle_steps: int = 64
    #: While a young job is slow, what a step is stays as so many steps said that were known ...
    even_steps: int = 16
    #: ... where they are told anew but for the rest of this share of them.
    same_steps: float = 0.9
    #: It is slow where so many of twice as many newest steps take longer than those it made before, by a share that
    #: matters to an operator (as `DiagnoseParams.min_excess`).
    slow_steps: int = 2
    slow_excess: float = 0.10
    #: From then on a window looks back over so many steps, enough to see what repeats.
    context_steps: int = 16
    #: Steps read back as the history that new ones are compared with.
    history_steps: int = 256
    #: ... and of those in the hour before them some that stand for all: what gets slower by 10 % in ten minutes does so
    #: by half of that in the newest steps, if they are short.
    older_span_s: int = 3600
    older_steps: int = 256
    #: Endpoints in no settled job are looked at over this span: three steps of five minutes and some.
    newcomer_lookback_s: int = 1200
    #: A job that is begun anew moves as many bytes as before, but for lost records.
    same_load: float = 0.03
    #: ... in bursts of the same sizes, but for the rest of this share of them.
    same_bursts: float = 0.9
    #: Steps of an earlier life in which those of a later one show for what they are: layers repeat first.
    shown_steps: int = 6
    #: A step boundary is the one published before where it is closer than this share of a step.
    same_boundary_share: float = 0.25
    #: A job is stalled when it has been silent for so many of its steps, and ended after so long.
    stalled_after_steps: float = 3.0
    ended_after_s: int = 600


@dataclass(frozen=True, slots=True)
class Params:
    """All parameters of the analysis."""

    clocks: ClockParams = field(default_factory=ClockParams)
    observe: ObserveParams = field(default_factory=ObserveParams)
    timeouts: TimeoutParams = field(default_factory=TimeoutParams)
    merged: MergedParams = field(default_factory=MergedParams)
    recognise: RecogniseParams = field(default_factory=RecogniseParams)
    identify: IdentifyParams = field(default_factory=IdentifyParams)
    divide: DivideParams = field(default_factory=DivideParams)
    diagnose: DiagnoseParams = field(default_factory=DiagnoseParams)
    stops: StopParams = field(default_factory=StopParams)
    going_on: ContinueParams = field(default_factory=ContinueParams)

    def digest(self) -> int:
        """Return 64 bits that change with any parameter: results of other parameters are other results."""
        return int.from_bytes(blake2b(repr(self).encode(), digest_size=8).digest(), "little")
