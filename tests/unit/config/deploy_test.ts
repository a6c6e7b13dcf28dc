import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { withFlags } from "../../../cli/installation/edited_configuration.ts";
import { shareFiles } from "../../../proxy/file_shares.ts";
import { accepted } from "./parse.ts";

const DEPLOY = new URL("../../../deploy/", import.meta.url);
const read = (name: string) => Deno.readTextFileSync(new URL(name, DEPLOY));

interface Named {
  readonly name: string;
}

Deno.test("the DaemonSet mounts each of its volumes once, and nothing else", () => {
  const [configMap, daemonSet] = parseAllDocuments(read("daemonset.yaml"), { merge: true }).map((document) => {
    assert.deepEqual(document.errors, []);
    return document.toJS();
  });
  const { volumes, containers, initContainers } = daemonSet.spec.template.spec;
  for (const { volumeMounts } of [...containers, ...initContainers]) {
    const paths = volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
    assert.deepEqual([...new Set(paths)], paths, "a path is mounted twice");
    const mounted = volumeMounts.map(({ name }: Named) => name).sort();
    assert.deepEqual(mounted, volumes.map(({ name }: Named) => name).sort());
  }
  accepted(["--config", "f", "--strict-config"], { files: { f: configMap.data["config.yaml"] } });
});

Deno.test("the installed configuration is valid and has no unknown fields", () => {
  const { warnings } = accepted(["--config", "f", "--strict-config"], { files: { f: read("config.yaml") } });
  assert.deepEqual(warnings, []);
});

for (const mode of ["iptables", "nftables", "ipvs"]) {
  Deno.test(`the installed configuration sets no minSyncPeriod in ${mode} mode`, () => {
    const text = withFlags(read("config.yaml"), new Map([["proxy-mode", mode]]));
    const { configuration } = accepted(["--config", "f", "--strict-config"], { files: { f: text } });
    assert.deepEqual([configuration.mode, configuration.minSyncPeriodMs], [mode, 0]);
  });
}

Deno.test("the unit allows a file descriptor for every node port and more", () => {
  const limit = Number(/^LimitNOFILE=(\d+)$/m.exec(read("sluice.service"))?.[1]);
  assert.ok(shareFiles(limit).listeners > 32_768);
});
