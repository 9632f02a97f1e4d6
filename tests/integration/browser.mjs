// What test_browser.py has headless Chromium do with the pages; prints what came of it as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const { BASE, PASSWORD, CHROMIUM, REPORT, NAMES, SHOTS } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
const browser = await chromium.launch({ executablePath: CHROMIUM, args: flags });
const found = { outside: [], dialogs: 0, refusals: [], axe: [] };

async function open(username, options = {}) {
  const httpCredentials = username ? { username, password: PASSWORD } : undefined;
  const context = await browser.newContext({ httpCredentials, javaScriptEnabled: false, viewport: { width: 1100, height: 900 }, ...options });
  const page = await context.newPage();
  page.on("dialog", (dialog) => { found.dialogs += 1; return dialog.dismiss(); });
  page.on("console", (message) => { if (/Content Security Policy/.test(message.text())) found.refusals.push(message.text()); });
  page.on("request", (request) => { if (!request.url().startsWith(BASE) && !request.url().startsWith("file:")) found.outside.push(request.url()); });
  return page;
}
const heading = (page) => page.locator("h1").first().innerText();
const shot = (page, name) => SHOTS && page.screenshot({ path: `${SHOTS}/${name}.png`, fullPage: true });

// Walks from the first page to a step, zooms, goes back, and reloads.
async function walk() {
  const page = await open("operator");
  const seen = [];
  const note = async () => seen.push([new URL(page.url()).pathname, await heading(page)]);
  await page.goto(`${BASE}/?named=job-one`);
  await note();
  await page.getByRole("link", { name: "job-one", exact: true }).last().click();
  await note();
  await page.getByRole("link", { name: "The slowest first" }).click();
  await page.getByRole("region", { name: "Steps" }).getByRole("link").first().click();
  await note();
  const whole = await page.getByLabel("To second").inputValue();
  await page.getByRole("link", { name: "Zoom in" }).click();
  const zoomed = [await page.getByLabel("From second").inputValue(), await page.getByLabel("To second").inputValue()];
  await page.reload();
  const reloaded = [await page.getByLabel("From second").inputValue(), await page.getByLabel("To second").inputValue()];
  await page.goBack();
  const back = await page.getByLabel("To second").inputValue();
  await page.goBack();
  await page.goBack();
  await page.goBack();
  await note();
  await page.context().close();
  return { seen, whole, zoomed, reloaded, back };
}

// Uses the keyboard alone: the skip link, the search form, the SQL box.
async function keyboard() {
  const page = await open("operator");
  await page.goto(`${BASE}/`);
  await page.keyboard.press("Tab");
  const first = await page.locator(":focus").innerText();
  await page.keyboard.press("Enter");
  const skipped = new URL(page.url()).hash;
  await page.getByLabel("Name of a job or tenant").focus();
  await page.keyboard.type("job-two");
  await page.keyboard.press("Enter");
  await page.waitForURL(/named=job-two/);
  const jobs = await page.getByRole("region", { name: "Jobs" }).locator("tbody tr").count();
  await page.goto(`${BASE}/sql`);
  await page.getByRole("textbox").focus();
  await page.keyboard.type("SELECT 6 * 7 AS answer");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Result" }).waitFor();
  const answer = await page.getByRole("region", { name: "Result" }).locator("td").innerText();
  await page.reload();
  const again = await page.getByRole("region", { name: "Result" }).locator("td").innerText();
  await page.goBack();
  const kept = await page.getByRole("heading", { name: "SQL" }).count();
  const downloading = page.waitForEvent("download");
  await page.getByRole("textbox").fill("SELECT job_id FROM jobs WHERE job_id LIKE 'job-o%'");
  await page.getByRole("button", { name: "Save as CSV" }).click();
  const csv = readFileSync(await (await downloading).path(), "utf8");
  await page.context().close();
  return { first, skipped, jobs, answer, again, kept, csv };
}

// Opens every page of a job with each hostile name, by its links where they lead there.
async function hostile() {
  const headings = [];
  const page = await open("operator");
  for (const name of JSON.parse(NAMES)) {
    const query = (parameters) => new URLSearchParams(parameters).toString();
    await page.goto(`${BASE}/?${query({ named: name.slice(0, 150) })}`);
    await page.getByRole("region", { name: "Jobs" }).getByRole("rowheader").getByRole("link").first().click();
    headings.push([await heading(page), await page.locator("main").count(), await page.locator("script").count()]);
    for (const [path, parameters] of [["/incident", { id: name }], ["/step", { job: name, step: 5 }], ["/host", { server: name }], ["/report", { job: name }]]) {
      const answer = await page.goto(`${BASE}${path}?${query(parameters)}`);
      headings.push([answer.status(), await page.locator("main").count(), await page.locator("script, img, iframe").count()]);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth).catch(() => 0);
    headings.push(["wide", wide <= 0]);
  }
  await page.goto(`${BASE}/`);
  await shot(page, "hostile");
  await page.context().close();
  return headings;
}

// Turns pages of many jobs; another tenant's job is not there; nobody without a password.
async function roles() {
  const page = await open("operator");
  const began = performance.now();
  await page.goto(`${BASE}/?named=many-`);
  const seconds = (performance.now() - began) / 1000;
  await page.getByRole("link", { name: "After" }).click();
  const turned = await page.getByRole("navigation", { name: "Pages of jobs" }).innerText();
  await page.context().close();
  const tenant = await open("alpha");
  await tenant.goto(`${BASE}/`);
  const own = await tenant.getByRole("region", { name: "Jobs" }).locator("tbody tr").count();
  const others = (await tenant.goto(`${BASE}/job?id=job-one`)).status();
  await tenant.context().close();
  const nobody = await open("");
  const locked = await nobody.goto(`${BASE}/`).then((answer) => answer.status(), (error) => error.message);
  await nobody.context().close();
  return { seconds, turned, own, others, locked };
}

// A page of another site sends forms with the password that the browser knows.
async function crossSite() {
  const page = await open("operator");
  await page.goto(`${BASE}/`);
  const form = (path, name) => `<form method="post" action="${BASE}${path}" enctype="${name}"><input name="statement" value="SELECT 1"><button>Go</button></form>`;
  await page.route("http://evil.test/**", (route) => route.fulfill({ contentType: "text/html", body: form("/sql", "application/x-www-form-urlencoded") + form("/", "text/plain") }));
  const statuses = [];
  for (const nth of [0, 1]) {
    await page.goto("http://evil.test/");
    const answered = page.waitForResponse((answer) => answer.url().startsWith(BASE) && answer.request().method() === "POST");
    await page.getByRole("button").nth(nth).click();
    statuses.push((await answered).status());
  }
  found.outside = found.outside.filter((address) => !address.startsWith("http://evil.test/"));
  await page.context().close();
  return statuses;
}

// Looks for what keeps people out, in light and dark, and in the report as a file.
async function accessible() {
  const paths = ["/", "/job?id=job-one", "/incident?id=incident-job-one-180", "/step?job=job-one&step=190", "/host?server=host-1-0", "/sql?statement=SELECT+1", "/job?id=no"];
  for (const colorScheme of ["light", "dark"]) {
    const page = await open("operator", { colorScheme, javaScriptEnabled: true, bypassCSP: true });
    for (const address of [...paths.map((path) => BASE + path), `file://${REPORT}`]) {
      await page.goto(address);
      await shot(page, `${colorScheme}-${paths.findIndex((path) => address === BASE + path)}`);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run());
      for (const each of violations) found.axe.push([each.impact, each.id, address.replace(BASE, ""), each.nodes[0].html.slice(0, 200)]);
    }
    await page.context().close();
  }
  const plain = await open("");
  await plain.goto(`file://${REPORT}`);
  found.report = { heading: await heading(plain), pictures: await plain.locator("svg").count() };
  found.report.pdf = (await plain.pdf({ format: "A4", path: SHOTS ? `${SHOTS}/report.pdf` : undefined })).length;
  await plain.context().close();
}

found.walk = await walk();
found.keyboard = await keyboard();
found.hostile = await hostile();
found.roles = await roles();
found.crossSite = await crossSite();
await accessible();
await browser.close();
console.log(JSON.stringify(found));
