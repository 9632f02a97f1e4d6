-- What the finding rests on.
SELECT e.1 AS "Evidence", e.2 AS "Value"
FROM diagnoses
ARRAY JOIN arrayConcat(
    [
        ('observed', toString(observed)), ('expected', toString(expected)), ('score', toString(score)),
        ('first_step', toString(first_step)), ('last_step', toString(last_step))
    ],
    JSONExtractKeysAndValuesRaw(evidence)
) AS e
WHERE diagnosis_id = ${finding:sqlstring}
