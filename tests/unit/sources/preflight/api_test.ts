import { describeMode } from "../../../../backends/mod.ts";
import assert from "node:assert/strict";
import { examineApi, judgeSkew, permissionsOf } from "../../../../sources/preflight/mod.ts";
import { createEventRecorder } from "../../../../observe/events.ts";
import type { Finding } from "../../../../core/problems/mod.ts";
import { createLogger, silentLogger } from "../../../../platform/log.ts";
import { type SeenRequest, startFakeApiServer, statusResponse } from "../../../fakes/api_server.ts";
import { featurePermissions } from "../../../../config/mod.ts";
import type { Permission } from "../../../../features/mod.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { accepted } from "../../config/parse.ts";

/** The permissions that features need with these flags. */
function ofFeatures(flags: readonly string[]): readonly Permission[] {
  return featurePermissions(accepted(flags).configuration);
}

/** The findings for a server that grants all permissions except `denied` (`list services`), with its own time. */
async function examine(
  answer: { readonly denied?: readonly string[]; readonly aheadMs?: number; readonly nodes?: readonly string[] },
  mode: "iptables" | "nftables" = "iptables",
  permissions: readonly Permission[] = [],
): Promise<readonly Finding[]> {
  const server = startFakeApiServer();
  const clock = createFakeClock();
  const date = new Date(clock.now() + (answer.aheadMs ?? 0)).toUTCString();
  server.fault((request) => {
    if (request.path === "/version") return Response.json({ gitVersion: "v1.36.1" }, { headers: { date } });
    if (request.path.endsWith("/selfsubjectaccessreviews")) return reviewed(request, answer.denied ?? []);
    const [, node] = /^\/api\/v1\/nodes\/(.+)$/.exec(request.path) ?? [];
    if (node && (answer.nodes ?? ["n1"]).includes(node)) return Response.json({ kind: "Node" });
    if (request.path === "/api/v1/nodes") {
      return Response.json({ items: (answer.nodes ?? []).map((name) => ({ metadata: { name } })) });
    }
    return undefined;
  });
  try {
    return await examineApi({
      kubeconfig: undefined,
      master: server.url,
      kinds: describeMode(mode).kinds,
      nodeName: "n1",
      permissions,
      clock,
      logger: silentLogger,
      signal: new AbortController().signal,
    });
  } finally {
    await server.close();
  }
}

function reviewed({ verb: method, body }: SeenRequest, denied: readonly string[]): Response {
  const { kind, spec } = JSON.parse(body);
  assert.deepEqual([method, kind], ["create", "SelfSubjectAccessReview"]);
  const { verb, group, resource, subresource } = spec.resourceAttributes;
  const name = subresource === undefined ? resource : `${resource}/${subresource}`;
  const allowed = !denied.includes(`${verb} ${name}${group === "" ? "" : `.${group}`}`);
  return Response.json({ kind, spec, status: { allowed } }, { status: 201 });
}

const verdicts = (findings: readonly Finding[]) => findings.map(({ name, verdict }) => `${name} ${verdict}`);

Deno.test("a reachable API server that allows everything is green", async () => {
  const findings = await examine({});
  assert.deepEqual(verdicts(findings), ["API server green", "clock green", "RBAC green", "node green"]);
  assert.match(findings[0]!.message, /Kubernetes v1\.36\.1/);
});

Deno.test("the permission for the node condition is only asked for if it is wanted", async () => {
  const denied = ["patch nodes/status"];
  assert.deepEqual(verdicts(await examine({ denied })), [
    "API server green",
    "clock green",
    "RBAC green",
    "node green",
  ]);
  const findings = await examine({ denied }, "iptables", ofFeatures(["--node-condition"]));
  assert.deepEqual(
    findings.filter(({ name }) => name === "RBAC").map(({ verdict, message }) => `${verdict} ${message}`),
    [
      "yellow no permission to patch nodes/status: the condition ServiceProxyReady of the Node is not written",
    ],
  );
  assert.match(findings.find(({ name }) => name === "RBAC")!.fix!, /`sluice kubeconfig --node-condition`/);
});

Deno.test("missing permissions with the same effect are one finding: red if required, yellow if optional", async () => {
  const denied = ["watch endpointslices.discovery.k8s.io", "create events", "patch events"];
  const findings = (await examine({ denied })).filter(({ name }) => name === "RBAC");
  assert.deepEqual(findings.map(({ verdict, message }) => `${verdict} ${message.replace(/:.*/, "")}`), [
    "red no permission to watch endpointslices.discovery.k8s.io",
    "yellow no permission to create and patch events",
  ]);
  for (const { fix } of findings) assert.match(fix!, /system:node-proxier/);
  const ranges = "list servicecidrs.networking.k8s.io";
  assert.deepEqual(verdicts(await examine({ denied: [ranges] }, "nftables")).includes("RBAC yellow"), true);
  assert(verdicts(await examine({ denied: [ranges] })).includes("RBAC green"), "requested in nftables mode only");
});

Deno.test("deploy/rbac.yaml grants exactly the needed permissions", async () => {
  const { parseAllDocuments } = await import("yaml");
  const text = await Deno.readTextFile(new URL("../../../../deploy/rbac.yaml", import.meta.url));
  const role = parseAllDocuments(text).map((document) => document.toJS()).find(({ kind }) => kind === "ClusterRole");
  const granted: string[] = role.rules.flatMap(
    ({ apiGroups, resources, verbs }: Record<"apiGroups" | "resources" | "verbs", string[]>) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}${group === "" ? "" : `.${group}`}`))
      ),
  );
  const needed = permissionsOf(describeMode("nftables").kinds).map(({ verb, resource }) => `${verb} ${resource}`);
  // Only `check` itself uses this permission.
  assert.deepEqual(granted.toSorted(), [...needed, "get nodes"].toSorted());
});

Deno.test("deploy/sites.yaml grants exactly the permissions of a node in a site", async () => {
  const { parseAllDocuments } = await import("yaml");
  const text = await Deno.readTextFile(new URL("../../../../deploy/sites.yaml", import.meta.url));
  const role = parseAllDocuments(text).map((document) => document.toJS()).find(({ kind }) => kind === "Role");
  type Rule = Record<"apiGroups" | "resources" | "verbs" | "resourceNames", readonly string[]>;
  const granted = role.rules.flatMap((
    { apiGroups: [group], resources: [resource], verbs, resourceNames: [name] }: Rule,
  ) => verbs.map((verb) => `${verb} ${resource}${group === "" ? "" : `.${group}`} ${role.metadata.namespace}/${name}`));
  const needed = ofFeatures(["--site", "store-12"]);
  for (const { fix } of needed) assert.match(fix!, /`sluice kubeconfig --site store-12 --site-members/);
  assert.deepEqual(
    granted,
    needed.map(({ verb, resource, namespace, name }) => `${verb} ${resource} ${namespace}/${name}`),
  );
});

Deno.test("the permissions on events are those needed to write them", async () => {
  const clock = createFakeClock();
  const used: string[] = [];
  const recorder = createEventRecorder({
    nodeName: "n1",
    send({ verb, path }) {
      const [, group = "", resource] = /^\/apis?\/(?:([^/]+)\/)?v1\/namespaces\/default\/([a-z]+)(?:\/|$)/.exec(path)!;
      used.push(`${verb} ${resource}${group === "" ? "" : `.${group}`}`);
      return Promise.resolve({});
    },
    uidOf: () => Promise.resolve(undefined),
    isRefusal: () => false,
    isGone: () => false,
    clock,
    logger: silentLogger,
    signal: new AbortController().signal,
  });
  for (let times = 0; times < 2; times++) {
    recorder.record("Warning", "FailedToSync", "IPv4", "it fails");
    await clock.advanceSettled(300_000);
  }
  const needed = permissionsOf(describeMode("iptables").kinds).filter(({ resource }) => resource.startsWith("events"));
  assert.deepEqual(needed.map(({ verb, resource }) => `${verb} ${resource}`), used);
});

Deno.test("a clock skew is reported with its direction", async () => {
  assert(verdicts(await examine({ aheadMs: 60_000 })).includes("clock yellow"));
  assert.deepEqual(judgeSkew(1500).verdict, "green");
  assert.match(judgeSkew(61_000).message, /61 s behind/);
  assert.match(judgeSkew(-61_000).message, /61 s ahead/);
  assert.equal(judgeSkew(-301_000).verdict, "red");
});

Deno.test("an unknown node is reported with a fix", async () => {
  const node = (await examine({ nodes: ["worker", "n2"] })).find(({ name }) => name === "node")!;
  assert.equal(node.verdict, "red");
  assert.match(node.message, /^Node n1 does not exist, .*: the cluster has worker, n2; did you mean n2\?$/);
  assert.match(node.fix!, /--hostname-override/);
});

Deno.test("rejected credentials, a closed port and a missing kubeconfig are red, each with a fix", async () => {
  const common = {
    kubeconfig: undefined,
    kinds: describeMode("iptables").kinds,
    nodeName: "n1",
    clock: createFakeClock(),
    logger: silentLogger,
    signal: new AbortController().signal,
  } as const;
  const server = startFakeApiServer();
  server.fault(() => statusResponse(401, "Unauthorized", "Unauthorized"));
  const refused = await examineApi({ ...common, master: server.url });
  await server.close();
  const closed = await examineApi({ ...common, master: server.url });
  const nowhere = await examineApi({ ...common, kubeconfig: "/nonexistent/kubeconfig", master: undefined });
  for (const findings of [refused, closed, nowhere]) assert.deepEqual(verdicts(findings), ["API server red"]);
  assert.match(refused[0]!.fix!, /token or certificate/);
  assert.match(closed[0]!.fix!, /without a service proxy/);
  assert.match(`${nowhere[0]!.message} ${nowhere[0]!.fix}`, /nonexistent.*--kubeconfig/);
});

Deno.test("refused credentials are a finding alone, without a line in the log", async () => {
  const server = startFakeApiServer();
  server.fault(() => statusResponse(401, "Unauthorized", "Unauthorized"));
  const clock = createFakeClock();
  let log = "";
  try {
    await examineApi({
      kubeconfig: undefined,
      master: server.url,
      kinds: [],
      nodeName: "n1",
      clock,
      logger: createLogger({ level: "info", format: "text", clock, write: (line) => log += line }),
      signal: new AbortController().signal,
    });
  } finally {
    await server.close();
  }
  assert.equal(log, "");
});

Deno.test("a kubeconfig without verification of the server gets the one fix that helps", async () => {
  const kubeconfig = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(
      kubeconfig,
      JSON.stringify({
        "current-context": "x",
        contexts: [{ name: "x", context: { cluster: "c" } }],
        clusters: [{ name: "c", cluster: { server: "https://192.0.2.1", "insecure-skip-tls-verify": true } }],
      }),
    );
    const [finding, ...others] = await examineApi({
      kubeconfig,
      master: undefined,
      kinds: [],
      nodeName: "n1",
      clock: createFakeClock(),
      logger: silentLogger,
      signal: new AbortController().signal,
    });
    assert.deepEqual([finding!.message, finding!.fix, others], [
      `${kubeconfig}: cluster "c": insecure-skip-tls-verify is not supported`,
      "set certificate-authority or certificate-authority-data to the CA of the API server instead",
      [],
    ]);
  } finally {
    await Deno.remove(kubeconfig);
  }
});
