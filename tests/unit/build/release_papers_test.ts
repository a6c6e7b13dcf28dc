/** Papers that a release needs agree with the version and with each other. */
import assert from "node:assert/strict";
import { parse } from "yaml";
import { VERSION } from "../../../platform/mod.ts";

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

Deno.test("the install script installs the program's version by default", () => {
  assert.match(read("install.sh"), new RegExp(`^version=${VERSION.replaceAll(".", "\\.")}$`, "m"));
});

Deno.test("the Helm chart has the program's version", () => {
  const { version, appVersion } = parse(read("deploy/helm/sluice/Chart.yaml")) as Record<string, string>;
  assert.deepEqual([version, appVersion], [VERSION, VERSION]);
});

Deno.test("the security policy supports the current minor version", () => {
  const minor = VERSION.replace(/\.\d+$/, ".x");
  assert.match(read("SECURITY.md"), new RegExp(`^\\| ${minor.replaceAll(".", "\\.")} +\\| yes +\\|$`, "m"));
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
