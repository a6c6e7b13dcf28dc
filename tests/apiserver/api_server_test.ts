/** The manifests, `sluice kubeconfig`, `check` and whole proxies against a real API server. */
import assert from "node:assert/strict";
import { requireIsolation } from "../../demo/isolate.ts";
import { type Lab, type Namespace, NETWORK } from "../../demo/lab.ts";
import { API_LINK, type ChaosLab, withLab } from "../chaos/lab.ts";
import { waitFor } from "../chaos/wait.ts";
import { type ApiObject, objectsIn } from "../fakes/api_validation.ts";
import { followsAnnotations } from "./balance.ts";
import { type ControlPlane, SERVER_NAME, startControlPlane, tokenIn } from "./control_plane.ts";
import { writesNodeCondition } from "./node_condition.ts";
import { sluice, startProxy } from "./sluice.ts";

const DEPLOY = new URL("../../deploy/", import.meta.url);
const WITHIN_MS = 60_000;

function manifests(folder: string): readonly ApiObject[] {
  const names = [...Deno.readDirSync(new URL(folder, DEPLOY))].map(({ name }) => name).sort();
  return names.filter((name) => name.endsWith(".yaml"))
    .flatMap((name) => objectsIn(Deno.readTextFileSync(new URL(`${folder}${name}`, DEPLOY))))
    .filter(({ kind, apiVersion = "" }) => kind !== undefined && !/kubeproxy|kustomize/.test(apiVersion));
}

/** The chart's objects; none without Helm. */
async function chart(): Promise<readonly ApiObject[]> {
  const args = ["template", "sluice", new URL("helm/sluice", DEPLOY).pathname, "--namespace", "kube-system"];
  const command = new Deno.Command("helm", {
    args: [...args, "--set", "apiServer=10.0.0.1:6443,networkPolicy.enabled=true"],
  });
  try {
    return objectsIn(new TextDecoder().decode((await command.output()).stdout));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

async function acceptsManifests({ create }: ControlPlane): Promise<void> {
  for (const object of [...manifests(""), ...manifests("example/"), ...await chart()]) {
    // A dry run of an object needs its namespace.
    const isNamespace = object.kind === "Namespace";
    const { status, body } = await create(object, { dryRun: !isNamespace });
    const isAccepted = status === 201 || isNamespace && status === 409;
    assert.ok(isAccepted, `${object.kind} ${object.metadata?.name}: ${body.message}`);
  }
  const wrong = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "x", namespace: "default" }, tokens: [] };
  assert.match((await create(wrong, { dryRun: true })).body.message, /unknown field "tokens"/);
}

/** Creates the identity of the nodes and returns the path of its kubeconfig. */
async function createsIdentity(lab: ChaosLab, { kubeconfig, request, hasControllers }: ControlPlane): Promise<string> {
  const common = ["kubeconfig", "--kubeconfig", kubeconfig];
  const output = `${lab.folder}/node.kubeconfig`;
  const dry = await sluice(lab, ...common, "--dry-run");
  assert.match(dry.stdout, /^would create +ClusterRole sluice$/m, dry.stderr);
  const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/sluice";
  assert.equal((await request("GET", role)).status, 404);

  const first = await sluice(lab, ...common, "--token-duration", "24h", "--output", output);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /^created +ServiceAccount kube-system\/sluice$/m);
  assert.match(first.stdout, /its token expires at \d{4}-/);
  const token = tokenIn(output);
  assert.equal((await request("GET", "/api/v1/services", undefined, token)).status, 200);
  for (const path of ["/api/v1/secrets", "/api/v1/pods"]) {
    assert.equal((await request("GET", path, undefined, token)).status, 403, path);
  }

  if (hasControllers) {
    const lasting = `${lab.folder}/lasting.kubeconfig`;
    const again = await sluice(lab, ...common, "--output", lasting);
    assert.match(again.stdout, /^updated +ClusterRoleBinding sluice$/m, again.stderr);
    assert.equal((await request("GET", "/api/v1/nodes", undefined, tokenIn(lasting))).status, 200);
  }
  return output;
}

async function checks(lab: Lab, { request }: ControlPlane, kubeconfig: string): Promise<void> {
  const check = () => sluice(lab, "check", "--kubeconfig", kubeconfig, "--hostname-override", NETWORK.nodeName);
  const before = await check();
  assert.match(before.stdout, /^green +API server .* runs Kubernetes v1\.\d+/m);
  assert.match(before.stdout, /^green +RBAC +grants all \d+ permissions/m);
  assert.match(before.stdout, /^red +node .*the cluster has no Nodes/m);
  const node = manifests("example/").find(({ kind }) => kind === "Node")!;
  assert.equal((await request("POST", "/api/v1/nodes", node)).status, 201);
  // The server ignores a status in a new object.
  const { status } = node as ApiObject & { readonly status: unknown };
  await request("PATCH", `/api/v1/nodes/${NETWORK.nodeName}/status`, { status });
  assert.match((await check()).stdout, /^green +node /m);
}

/** Returns the path of the identity's kubeconfig made from an administrator's with `tls-server-name`. */
async function verifiesName(lab: ChaosLab, plane: ControlPlane): Promise<string> {
  const named = (name: string) => {
    const path = `${lab.folder}/${name}.kubeconfig`;
    const config = JSON.parse(Deno.readTextFileSync(plane.kubeconfig));
    config.clusters[0].cluster["tls-server-name"] = name;
    Deno.writeTextFileSync(path, JSON.stringify(config));
    return path;
  };
  const wrong = await sluice(lab, "check", "--kubeconfig", named("other.example"));
  assert.match(wrong.stdout, /^red +API server +the certificate of https:\S+ is not trusted/m);
  const output = `${lab.folder}/named-node.kubeconfig`;
  const identity = ["--kubeconfig", named(SERVER_NAME), "--token-duration", "24h", "--output", output];
  const made = await sluice(lab, "kubeconfig", ...identity);
  assert.equal(made.code, 0, made.stderr);
  assert.match(Deno.readTextFileSync(output), new RegExp(`^ +tls-server-name: ${SERVER_NAME}$`, "m"));
  return output;
}

async function answers(lab: Lab, from: Namespace, address: string): Promise<string> {
  const outcome = await lab.connect(from, { protocol: "tcp", address, port: 80 });
  return outcome.kind === "answered" ? outcome.by : outcome.kind;
}

/** Sets the endpoints of the service web to one pod. */
async function setEndpoint({ request }: ControlPlane, pod: "pod-1" | "pod-2"): Promise<void> {
  const endpoints = [{ addresses: [NETWORK.pods[pod].IPv4], nodeName: NETWORK.nodeName, conditions: { ready: true } }];
  const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-ipv4";
  assert.equal((await request("PATCH", path, { endpoints })).status, 200);
}

async function proxies(lab: ChaosLab, plane: ControlPlane, kubeconfig: string, mode: string): Promise<void> {
  const proxy = startProxy(lab, "--kubeconfig", kubeconfig, "--proxy-mode", mode);
  const becomes = (pod: string) =>
    waitFor(`${pod} answers`, WITHIN_MS, async () => await answers(lab, "pod-2", "10.96.0.10") === pod);

  await setEndpoint(plane, "pod-1");
  await becomes("pod-1");
  const status = await sluice(lab, "status", "--wait", "60s");
  assert.equal(status.code, 0, status.stdout);
  assert.match(status.stdout, new RegExp(`connected to https://\\S+:6443`));
  assert.equal(await answers(lab, "outside", "10.96.0.50"), "refused");
  await setEndpoint(plane, "pod-2");
  await becomes("pod-2");
  assert.equal((await sluice(lab, "diff")).code, 0);
  const { body } = await plane.request("GET", "/api/v1/namespaces/default/events");
  const events = body.items as readonly { reason: string; source: { component: string }; message: string }[];
  assert.ok(events.some((one) => one.source.component === "sluice" && one.message.includes(mode)), "no Event");

  await plane.killServer();
  await waitFor("the lost server is reported", WITHIN_MS, async () => {
    return (await sluice(lab, "status")).stdout.includes("disconnected");
  });
  assert.equal(await answers(lab, "pod-2", "10.96.0.10"), "pod-2");
  await plane.startServer();
  await setEndpoint(plane, "pod-1");
  await becomes("pod-1");
  await proxy.end("SIGTERM");
  await sluice(lab, "--cleanup");
}

Deno.test("a real API server", async (test) => {
  requireIsolation();
  await withLab(async (lab) => {
    const plane = await startControlPlane(lab.folder, {
      server: Deno.env.get("KUBE_APISERVER")!,
      address: API_LINK.server,
      users: { kubelet: { name: `system:node:${NETWORK.nodeName}`, group: "system:nodes" } },
      controllerFlags: ["--controllers=serviceaccount-token-controller"],
    });
    try {
      await test.step("accepts all manifests, and refuses unknown fields", () => acceptsManifests(plane));
      let kubeconfig = "";
      await test.step("`sluice kubeconfig` creates an identity with these permissions only", async () => {
        kubeconfig = await createsIdentity(lab, plane);
      });
      await test.step("`sluice check` names the version, the permissions and a missing Node", () =>
        checks(lab, plane, kubeconfig));
      const objects = manifests("example/").filter(({ kind }) => kind !== "Node");
      for (const object of objects) assert.equal((await plane.create(object)).status, 201, object.metadata?.name);
      for (const mode of ["nftables", "iptables"]) {
        await test.step(`a proxy in ${mode} mode follows changes, and a restart of the server`, () =>
          proxies(lab, plane, kubeconfig, mode));
      }
      await test.step("a proxy with tls-server-name verifies that name, and follows as well", async () =>
        proxies(lab, plane, await verifiesName(lab, plane), "nftables"));
      await test.step("balancing annotations follow labels of Nodes, and one that is not valid has one Event", () =>
        followsAnnotations(lab, plane, kubeconfig));
      await test.step("the Node condition follows what happens to packets, proxy and Node", () =>
        writesNodeCondition(lab, plane, kubeconfig));
    } finally {
      await plane.close();
    }
  });
});
