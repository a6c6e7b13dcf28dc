/** Papers that a release needs agree with the version and with each other. */
import assert from "node:assert/strict";
import { parse } from "yaml";
import { DOCUMENTATION, VERSION } from "../../../platform/mod.ts";

const ROOT = new URL("../../../", import.meta.url);
const read = (path: string) => Deno.readTextFileSync(new URL(path, ROOT));

Deno.test("the newest section of the changelog is the program's version", () => {
  const [, newest] = /^## \[([^\]]+)\]/m.exec(read("CHANGELOG.md")) ?? [];
  assert.equal(newest, VERSION);
});

Deno.test("deployments name the program's version", () => {
  for (const path of ["deploy/daemonset.yaml", "deploy/serve.yaml", "docs/migrate.md"]) {
    const tags = [...read(path).matchAll(/\/sluice:(\d+\.\d+\.\d+)/g)].map(([, tag]) => tag);
    assert.ok(tags.length > 0, path);
    assert.deepEqual([...new Set(tags)], [VERSION], path);
  }
});

Deno.test("the program, the alerts and their tests link the documentation at the address that release.sh replaces", () => {
  const [, address] = /^readonly placeholder=(\S+)$/m.exec(read("release.sh")) ?? [];
  assert.equal(DOCUMENTATION, `${address}/blob/v${VERSION}/docs`);
  for (const path of ["deploy/alerts.yaml", "tests/alerts/rules.yaml"]) {
    const folders = [...read(path).matchAll(/runbook_url: (\S+)\/operate\.md#/g)].map(([, folder]) => folder);
    assert.deepEqual([...new Set(folders)], [DOCUMENTATION], path);
  }
});

Deno.test("the install script installs the program's version by default", () => {
  assert.match(read("install.sh"), new RegExp(`^version=${VERSION.replaceAll(".", "\\.")}$`, "m"));
});

Deno.test("the Helm chart has the program's version", () => {
  const { version, appVersion } = parse(read("deploy/helm/sluice/Chart.yaml")) as Record<string, string>;
  assert.deepEqual([version, appVersion], [VERSION, VERSION]);
});

Deno.test("the Helm chart names the address that release.sh replaces, and papers of the program's version", () => {
  const [, address] = /^readonly placeholder=(\S+)$/m.exec(read("release.sh")) ?? [];
  const { home, sources, annotations } = parse(read("deploy/helm/sluice/Chart.yaml"));
  assert.deepEqual([home, sources], [address, [address]]);
  const links: readonly { readonly name: string; readonly url: string }[] = parse(annotations["artifacthub.io/links"]);
  assert.ok(links.length > 0);
  for (const { name, url } of links) {
    const [, path] = new RegExp(`^${address}/(?:tree|blob)/v${VERSION}/(\\S+)$`).exec(url) ?? [];
    assert.ok(path !== undefined && Deno.statSync(new URL(path, ROOT)), name);
  }
});

Deno.test("the Helm chart lists its changes in Artifact Hub's format", () => {
  const { annotations } = parse(read("deploy/helm/sluice/Chart.yaml"));
  const changes: readonly Record<string, string>[] = parse(annotations["artifacthub.io/changes"]);
  assert.ok(changes.length > 0);
  for (const { kind, description } of changes) {
    assert.match(kind!, /^(added|changed|deprecated|removed|fixed|security)$/);
    assert.ok(description);
  }
});

Deno.test("the security policy names no version, so that it supports none that is not released", () => {
  assert.doesNotMatch(read("SECURITY.md"), /\b\d+\.\d+\.(\d|x)/);
});

Deno.test("workflows pin every action by its commit and ask for no more than reading", () => {
  const folder = new URL(".github/workflows/", ROOT);
  const workflows = [...Deno.readDirSync(folder)].map(({ name }) => read(`.github/workflows/${name}`));
  assert.ok(workflows.length > 0);
  for (const text of workflows) {
    for (const [, action] of text.matchAll(/uses: (\S+)/g)) assert.match(action!, /@[0-9a-f]{40}$/);
    const { permissions } = parse(text) as { readonly permissions: unknown };
    assert.deepEqual(permissions, { contents: "read" });
  }
});

Deno.test("the job of the scorecard has nothing because of which its result would not be published", () => {
  // https://github.com/ossf/scorecard-action#workflow-restrictions
  const { env, defaults, jobs } = parse(read(".github/workflows/scorecard.yml"));
  const { "runs-on": runner, permissions, steps, "timeout-minutes": _, ...more } = jobs.scorecard;
  assert.deepEqual([env, defaults, Object.keys(jobs), more], [undefined, undefined, ["scorecard"], {}]);
  assert.match(runner, /^ubuntu-[\d.]+$/);
  assert.equal(permissions["id-token"], "write");
  assert.deepEqual(steps.map(({ uses }: { readonly uses?: string }) => uses?.replace(/@.*/, "")), [
    "actions/checkout",
    "ossf/scorecard-action",
    "github/codeql-action/upload-sarif",
  ]);
  assert.equal(steps[1].with.results_file, steps[2].with.sarif_file);
});
