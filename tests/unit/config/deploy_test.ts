import assert from "node:assert/strict";
import { parseAllDocuments } from "yaml";
import { withFlags } from "../../../cli/installation/wanted.ts";
import { KINDS } from "../../../core/objects/cluster_object.ts";
import { resourcesOf } from "../../../sources/kubernetes/resource.ts";
import { shareFiles } from "../../../node/proxy_options.ts";
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

Deno.test("the Deployment of a server has valid flags, mounts its volumes, and probes its own ports", () => {
  const documents = parseAllDocuments(read("serve.yaml")).map((document) => {
    assert.deepEqual(document.errors, []);
    return document.toJS();
  });
  const { template } = documents.find(({ kind }) => kind === "Deployment").spec;
  const { containers: [container], volumes, securityContext } = template.spec;
  accepted(container.args);
  const flag = (name: string) => container.args.find((arg: string) => arg.startsWith(`--${name}=`)).split("=")[1];
  assert.deepEqual(container.volumeMounts.map(({ name }: Named) => name), volumes.map(({ name }: Named) => name));
  for (const probe of [container.readinessProbe, container.livenessProbe]) {
    assert.equal(flag("healthz-bind-address"), `${probe.httpGet.host}:${probe.httpGet.port}`);
  }
  const ports = container.ports.map(({ containerPort }: { containerPort: number }) => containerPort);
  assert.deepEqual(
    ports,
    [flag("listen"), flag("metrics-bind-address")].map((address) => Number(address.split(":").at(-1))),
  );
  assert.equal(securityContext.runAsNonRoot && container.securityContext.readOnlyRootFilesystem, true);
  const selector = documents.find(({ kind }) => kind === "Service").spec.selector;
  assert.deepEqual(selector, template.metadata.labels);
});

Deno.test("the Deployment of a server may read what a server reads, and nothing else", () => {
  const role = parseAllDocuments(read("serve.yaml")).map((document) => document.toJS()).find(({ kind }) =>
    kind === "ClusterRole"
  );
  const granted = role.rules.flatMap((
    { apiGroups: [group], resources, verbs }: { apiGroups: string[]; resources: string[]; verbs: string[] },
  ) => resources.flatMap((one) => verbs.map((verb) => `${verb} ${group === "" ? one : `${one}.${group}`}`)));
  const needed = resourcesOf(KINDS, undefined).flatMap(({ name }) =>
    ["list", "watch"].map((verb) => `${verb} ${name}`)
  );
  assert.deepEqual(granted.sort(), needed.sort());
});

Deno.test("the command lines of the server's unit are valid", () => {
  const unit = read("sluice-serve.service").replaceAll(/ \\\n#?/g, " ");
  const lines = [...unit.matchAll(/ExecStart=\/usr\/local\/bin\/sluice (.*)$/gm)].map(([, line]) =>
    line!.trim().split(/\s+/)
  );
  assert.equal(lines.length, 2);
  for (const line of lines) accepted(line);
});

Deno.test("the unit allows a file descriptor for every node port and more", () => {
  const limit = Number(/^LimitNOFILE=(\d+):262144$/m.exec(read("sluice.service"))?.[1]);
  assert.ok(shareFiles(limit).listeners > 32_768);
});
