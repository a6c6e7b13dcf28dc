/** explain, get and render: the source of their answers, and their output. */
import assert from "node:assert/strict";
import { createAnswers } from "../../../../answers/mod.ts";
import { serveControlSocket } from "../../../../answers/control/mod.ts";
import { listenOnControlSocket } from "../../../../answers/control/socket.ts";
import type { Feed } from "../../../../observe/mod.ts";
import type { NodeView } from "../../../../answers/status/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { fakeAnswerBasis, HERE } from "../../../fakes/answer_basis.ts";
import { node, service } from "../../../fakes/cluster_objects.ts";
import { invoke } from "./invoke.ts";

const EXAMPLE = new URL("../../../../deploy/example", import.meta.url).pathname;
const OFFLINE = ["--source", `file:${EXAMPLE}`, "--hostname-override", "demo-node", "--cluster-cidr", "10.244.0.0/16"];

/** Runs a command line to its end. */
async function run(...args: readonly string[]): Promise<{ readonly status: number; readonly printed: string }> {
  const { status, stdout } = await invoke(args);
  return { status, printed: stdout };
}

Deno.test("explain answers from a source in every mode, with the rules that a proxy would write", async () => {
  for (const [mode, place] of [["iptables", "nat KUBE-SERVICES"], ["nftables", "map services"]] as const) {
    const { status, printed } = await run("explain", "10.96.0.20:80", "--proxy-mode", mode, ...OFFLINE);
    assert.equal(status, 0);
    assert.match(printed, /is cluster IP 10\.96\.0\.20:80\/TCP of default\/shop:http \(NodePort\)\n/);
    assert.ok(printed.includes(`Rules (as a proxy would write them)\n  ${place}\n`), printed);
  }
  const { printed } = await run("explain", "10.96.0.50:80", "--from", "pod", "-o", "json", ...OFFLINE);
  assert.equal(JSON.parse(printed).outcomes[0].fate, "rejected");
});

Deno.test("explain says once why an annotation has no effect: in its answer, not in a log", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(
      `${folder}/dns.yaml`,
      `apiVersion: v1
kind: Service
metadata: { name: dns, namespace: default, annotations: { sluice.dev/balance: least-connections } }
spec: { clusterIP: 10.96.0.90, clusterIPs: [10.96.0.90], ports: [{ port: 53, protocol: UDP }] }
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: { name: dns-1, namespace: default, labels: { kubernetes.io/service-name: dns } }
addressType: IPv4
ports: [{ port: 53, protocol: UDP }]
endpoints: [{ addresses: [10.244.1.90] }]
`,
    );
    const asked = ["explain", "10.96.0.90:53/udp", "--proxy-mode", "nftables", "--source", `file:${folder}`];
    const { stdout, log } = await invoke(asked);
    assert.match(stdout, /note: least-connections counts connections of TCP, not of UDP/);
    assert.equal(log, "");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("get prints a table, JSON or YAML", async () => {
  const table = await run("get", "services", "shop", ...OFFLINE);
  assert.match(table.printed, /^NAME .*\ndefault\/shop:http +NodePort .*\n$/);
  const json = await run("get", "endpoints", "default/edge", "-o", "json", ...OFFLINE);
  assert.deepEqual(JSON.parse(json.printed).map(({ used }: { used: boolean }) => used), [true, true]);
  const yaml = await run("get", "services", "shop", "-o", "yaml", ...OFFLINE);
  assert.match(yaml.printed, /^- name: default\/shop:http\n {2}family: IPv4\n/);
});

Deno.test("render prints the input of each tool for the selected families", async () => {
  const { printed } = await run("render", "--family", "IPv4", ...OFFLINE);
  assert.match(printed, /^# iptables-restore --noflush -w 5\n\*filter\n/m);
  assert.ok(!printed.includes("ip6tables"));
  const nft = await run("render", "--proxy-mode", "nftables", ...OFFLINE);
  assert.match(nft.printed, /^# nft -f -\nadd table ip sluice\n/m);
  assert.match(nft.printed, /^add table ip6 sluice\n/m);
});

Deno.test("a question to a source that cannot be read fails at once", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/broken.yaml`, "kind: [");
    for (const [file, cause] of [["missing.yaml", "no such file or folder"], ["broken.yaml", ""]] as const) {
      const onLog = (line: string) => assert.fail(`the log of a proxy: ${line}`);
      const asked = invoke(["get", "services", "--source", `file:${folder}/${file}`], { onLog });
      await assert.rejects(asked, new RegExp(`cannot read the source: .*${file}.*${cause}`));
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("an invalid question exits with status 2", async () => {
  assert.equal((await run("explain", "nowhere:80", ...OFFLINE)).status, 2);
  assert.equal((await run("explain", "10.0.0.1:80", "--from", "fd00::1", ...OFFLINE)).status, 2);
});

Deno.test("the proxy on the control socket answers unless --source is given", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/control.sock`;
  const end = new AbortController();
  const basis = fakeAnswerBasis([node(HERE), service("running/only")]);
  const served = serveControlSocket({
    listener: await listenOnControlSocket(path),
    answers: () =>
      Promise.resolve({
        ...createAnswers(basis),
        status: () => Promise.resolve({} as NodeView),
        events: () => Promise.resolve({} as Feed),
      }),
    clock: systemClock,
    logger: silentLogger,
    signal: end.signal,
  });
  try {
    const running = await run("get", "services", "--control-socket", path);
    assert.match(running.printed, /running\/only:http/);
    const source = await run("get", "services", "--control-socket", path, ...OFFLINE);
    assert.ok(!source.printed.includes("running/only"));
    const ofService = await invoke(["get", "services", "--control-socket", path, ...OFFLINE], { isInstalled: true });
    assert.match(ofService.stdout, /running\/only/, "the service's own --source does not replace its proxy");
    const rendered = await run("render", "--control-socket", path, "--family", "IPv4");
    assert.match(rendered.printed, /10\.0\.0\.1\/32 .*running\/only:http has no endpoints/);
  } finally {
    end.abort();
    await served;
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("get accepts kubectl's short names, prints names alone, and fails if nothing has the name", async () => {
  assert.deepEqual(await run("get", "svc", "shop", ...OFFLINE), await run("get", "services", "shop", ...OFFLINE));
  assert.deepEqual(await run("get", "ep", "shop", ...OFFLINE), await run("get", "endpoints", "shop", ...OFFLINE));
  assert.equal((await run("get", "svc", "shop", "-o", "name", ...OFFLINE)).printed, "default/shop\n");
  await assert.rejects(
    run("get", "services", "default/shap", ...OFFLINE),
    /no service port has a name that contains "default\/shap"; did you mean default\/shop\?/,
  );
});

Deno.test("get takes kubectl's flags for namespaces", async () => {
  const all = await run("get", "svc", ...OFFLINE);
  for (const flags of [["-A"], ["--all-namespaces"], ["-n", "default"], ["--namespace=default"]]) {
    assert.deepEqual(await run("get", "svc", ...flags, ...OFFLINE), all, flags.join(" "));
  }
  assert.deepEqual(
    await run("get", "ep", "shop", "-n", "default", ...OFFLINE),
    await run("get", "ep", "shop", ...OFFLINE),
  );
  await assert.rejects(
    run("get", "svc", "-n", "defalt", ...OFFLINE),
    /no service is in namespace defalt; did you mean default\?/,
  );
  await assert.rejects(run("get", "svc", "-n", "defaul", ...OFFLINE), /no service is in namespace defaul;/);
  assert.equal((await run("get", "svc", "-A", "-n", "default", ...OFFLINE)).status, 2);
});

Deno.test("explain takes a service's name, and names the ports of an address without the requested one", async () => {
  const byName = await run("explain", "default/shop", ...OFFLINE);
  assert.match(byName.printed, /is cluster IP 10\.96\.0\.20:80\/TCP of default\/shop:http/);
  assert.deepEqual(await run("explain", "shop.default", ...OFFLINE), byName);
  const near = await run("explain", "10.96.0.20:8080", ...OFFLINE);
  assert.match(near.printed, /10\.96\.0\.20 has port 80\/TCP \(default\/shop:http\), not 8080\/TCP/);
});

Deno.test("--json is short for -o json", async () => {
  assert.deepEqual(
    await run("explain", "10.96.0.20:80", "--json", ...OFFLINE),
    await run("explain", "10.96.0.20:80", "-o", "json", ...OFFLINE),
  );
});
