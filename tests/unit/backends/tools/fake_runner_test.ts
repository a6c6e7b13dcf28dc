import assert from "node:assert/strict";
import { ToolMissingError, ToolTimeoutError } from "../../../../backends/tools/runner.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { createFakeRunner, type FakeRunner } from "../../../fakes/runner.ts";

async function restore(runner: FakeRunner, input: string, tool = "iptables-restore"): Promise<void> {
  const result = await runner.run({ tool, args: ["-w", "5", "--noflush"], stdin: [input] });
  assert.equal(result.exitCode, 0, result.stderr);
}

const SERVICES = `*nat
:SERVICES - [0:0]
:WEB - [0:0]
:MARK-MASQ - [0:0]
:POST - [0:0]
-A PREROUTING -j SERVICES
-A OUTPUT -j SERVICES
-A POSTROUTING -j POST
-A MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A POST -m conntrack --ctstate DNAT -m bpf --bytecode "6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 1,6 0 0 0" -j MASQUERADE
-A POST -m mark ! --mark 0x4000/0x4000 -j RETURN
-A POST -j MARK --set-xmark 0x4000/0x0
-A POST -j MASQUERADE --random-fully
-A SERVICES -d 10.96.0.10/32 -p tcp -m tcp --dport 80 -j WEB
-A SERVICES ! -d 127.0.0.0/8 -p tcp -m addrtype --dst-type LOCAL -m tcp --dport 30000:30010 -j WEB
-A WEB ! -s 10.244.0.0/16 -j MARK-MASQ
-A WEB -p tcp -m statistic --mode random --probability 0.33333333349 -j DNAT --to-destination 10.244.1.1:8080
-A WEB -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 10.244.1.2:8080
-A WEB -p tcp -j DNAT --to-destination 10.244.1.3:8080
COMMIT
*filter
:REJECTED - [0:0]
-A FORWARD -m conntrack --ctstate NEW -j REJECTED
-A OUTPUT -m conntrack --ctstate NEW -j REJECTED
-A INPUT -p udp -m udp --dport 9 -j DROP
-A REJECTED -d 10.96.0.99/32 -p tcp -m tcp --dport 80 -j REJECT
COMMIT
`;

Deno.test("packets follow the rules, and each endpoint gets its share", async () => {
  const runner = createFakeRunner();
  await restore(runner, SERVICES);
  const shares = runner.destinations({ from: "pod-on-node", to: "10.96.0.10", port: 80 });
  assert.deepEqual([...shares.keys()].sort(), ["10.244.1.1:8080", "10.244.1.2:8080", "10.244.1.3:8080"]);
  for (const share of shares.values()) assert.ok(Math.abs(share - 1 / 3) < 1e-9, String(share));
});

Deno.test("a packet is masqueraded if the rules require it", async () => {
  const runner = createFakeRunner();
  await restore(runner, SERVICES);
  const masqueraded = (from: Parameters<FakeRunner["outcomes"]>[0]["from"], to: string, port: number) =>
    runner.outcomes({ from, to, port }).map(({ outcome }) => `${outcome.destination} ${outcome.masqueraded}`).sort();
  const all = (answer: boolean) => [1, 2, 3].map((i) => `10.244.1.${i}:8080 ${answer}`);
  assert.deepEqual(masqueraded("pod-on-node", "10.96.0.10", 80), all(false));
  assert.deepEqual(masqueraded("node", "10.96.0.10", 80), all(true));
  assert.deepEqual(masqueraded("outside", "192.168.1.1", 30005), all(true));
  const hairpin = masqueraded({ address: "10.244.1.2", interface: "cni0" }, "10.96.0.10", 80);
  assert.deepEqual(hairpin, ["10.244.1.1:8080 false", "10.244.1.2:8080 true", "10.244.1.3:8080 false"]);
});

Deno.test("a packet that matches no rule passes, and its path is reported", async () => {
  const runner = createFakeRunner();
  await restore(runner, SERVICES);
  const outcome = runner.send({ from: "pod-on-node", to: "203.0.113.9", port: 443 });
  assert.deepEqual(outcome, {
    verdict: "passed",
    destination: "203.0.113.9:443",
    masqueraded: false,
    mark: 0,
    path: ["nat/PREROUTING", "nat/SERVICES", "filter/FORWARD", "filter/REJECTED", "nat/POSTROUTING", "nat/POST"],
    rulesEvaluated: 8,
  });
});

Deno.test("packets are rejected and dropped, and established connections pass", async () => {
  const runner = createFakeRunner();
  await restore(runner, SERVICES);
  assert.equal(runner.send({ from: "outside", to: "10.96.0.99", port: 80 }).verdict, "rejected");
  assert.equal(runner.send({ from: "node", to: "10.96.0.99", port: 80 }).verdict, "rejected");
  assert.equal(runner.send({ from: "outside", to: "192.168.1.1", port: 9, protocol: "udp" }).verdict, "dropped");
  const open = { from: "outside", to: "10.96.0.99", port: 80, state: "ESTABLISHED" } as const;
  assert.equal(runner.send(open).verdict, "passed");
  const toService = { from: "pod-on-node", to: "10.96.0.10", port: 80, state: "ESTABLISHED" } as const;
  assert.deepEqual([...runner.destinations(toService)], [["passed", 1]], "only the first packet meets nat rules");
});

Deno.test("the injected random number decides the path of a packet", async () => {
  const draws = [0.1, 0.9, 0.1, 0.9, 0.9];
  const runner = createFakeRunner({ random: () => draws.shift()! });
  await restore(runner, SERVICES);
  const send = () => runner.send({ from: "pod-on-node", to: "10.96.0.10", port: 80 }).destination;
  assert.deepEqual([send(), send(), send()], ["10.244.1.1:8080", "10.244.1.2:8080", "10.244.1.3:8080"]);
});

Deno.test("the policy decides at the end of a built-in chain", async () => {
  const runner = createFakeRunner();
  await restore(runner, "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n");
  assert.equal(runner.send({ from: "outside", to: "10.244.1.1", port: 80 }).verdict, "dropped");
});

Deno.test("-g does not return to the calling chain", async () => {
  const runner = createFakeRunner();
  await restore(
    runner,
    "*filter\n:A - [0:0]\n:B - [0:0]\n-A FORWARD -j A\n-A FORWARD -p tcp -j REJECT\n-A A -g B\n-A A -j DROP\nCOMMIT\n",
  );
  assert.equal(runner.send({ from: "outside", to: "10.244.1.1", port: 80 }).verdict, "rejected");
});

Deno.test("IPv6 packets meet IPv6 rules only", async () => {
  const runner = createFakeRunner();
  await restore(
    runner,
    "*nat\n:S - [0:0]\n-A PREROUTING -d fd00::10 -p tcp --dport 80 -j S\n" +
      "-A S -p tcp -j DNAT --to-destination [fd00:244:1::5]:8080\nCOMMIT\n",
    "ip6tables-restore",
  );
  const shares = runner.destinations({ from: "outside", to: "fd00::10", port: 80 });
  assert.deepEqual([...shares], [["[fd00:244:1::5]:8080", 1]]);
  assert.equal(runner.dump("IPv4"), "");
});

const AFFINITY = `*nat
:S - [0:0]
-A PREROUTING -j S
-A S -p tcp -m recent --rcheck --seconds 60 --reap --name ONE --rsource -j DNAT --to-destination 10.244.1.1:80
-A S -p tcp -m recent --rcheck --seconds 60 --reap --name TWO --rsource -j DNAT --to-destination 10.244.1.2:80
-A S -p tcp -m statistic --mode random --probability 0.5 -m recent --set --name ONE --rsource -j DNAT --to-destination 10.244.1.1:80
-A S -p tcp -m recent --set --name TWO --rsource -j DNAT --to-destination 10.244.1.2:80
COMMIT
`;

Deno.test("recent remembers clients until their timeout, and while a rule uses the list", async () => {
  const clock = createFakeClock();
  const runner = createFakeRunner({ clock, random: () => 0.7 });
  await restore(runner, AFFINITY);
  const packet = { from: "outside", to: "10.96.0.1", port: 80 } as const;
  assert.equal(runner.destinations(packet).size, 2);
  assert.equal(runner.destinations(packet).size, 2, "a check adds no entry");
  assert.equal(runner.send(packet).destination, "10.244.1.2:80");
  clock.advance(60_000);
  assert.deepEqual([...runner.destinations(packet)], [["10.244.1.2:80", 1]]);
  assert.equal(runner.destinations({ ...packet, from: "pod-on-node" }).size, 2, "another client");
  await restore(runner, `${AFFINITY.replace("-A PREROUTING -j S\n", "")}`);
  assert.equal(runner.destinations(packet).size, 1, "the lists are still in use");
  clock.advance(1);
  assert.equal(runner.destinations(packet).size, 2);
  runner.send(packet);
  await restore(runner, "*nat\n:S - [0:0]\nCOMMIT\n");
  await restore(runner, AFFINITY.replace("-A PREROUTING -j S\n", ""));
  assert.equal(runner.destinations(packet).size, 2, "no rule used the lists for a while");
});

Deno.test("kernels with equal content have equal dumps, whatever their history", async () => {
  const first = createFakeRunner(), second = createFakeRunner();
  await restore(first, "*filter\n:B - [0:0]\n:A - [0:0]\n-A A -d 10.0.0.1 -p tcp --dport 80 -j B\nCOMMIT\n");
  await restore(second, "*mangle\n:X - [0:0]\nCOMMIT\n*filter\n:A - [0:0]\n:C - [0:0]\n-A A -j C\nCOMMIT\n");
  assert.notEqual(first.dump(), second.dump());
  await restore(
    second,
    "*mangle\n-X X\nCOMMIT\n" +
      "*filter\n:A - [0:0]\n:B - [0:0]\n-A A -d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j B\n-X C\nCOMMIT\n",
  );
  assert.equal(first.dump(), second.dump());
  assert.deepEqual(first.chains("IPv4", "filter"), ["INPUT", "FORWARD", "OUTPUT", "A", "B"]);
  assert.deepEqual(first.rules("IPv4", "filter", "A"), ["-d 10.0.0.1/32 -p tcp -m tcp --dport 80 -j B"]);
  assert.equal(first.rules("IPv4", "filter", "C"), undefined);
});

Deno.test("calls are recorded, and fail as requested, as often as requested", async () => {
  const clock = createFakeClock();
  const runner = createFakeRunner({ clock });
  const input = "*nat\n:A - [0:0]\nCOMMIT\n";
  const call = { tool: "iptables-restore", args: ["--noflush"], stdin: [input] };
  runner.inject(({ tool }) => tool === "iptables-restore", { how: "exits", exitCode: 4, stderr: "busy\n" }, 1);
  assert.deepEqual(await runner.run(call), { exitCode: 4, stdout: "", stderr: "busy\n" });
  assert.equal(runner.dump(), "");

  const ends = runner.inject(({ stdin }) => stdin.includes(":A"), { how: "hangs", afterItsWork: true });
  const hanging = assert.rejects(runner.run({ ...call, timeoutMs: 500 }), ToolTimeoutError);
  await settled();
  await clock.advanceSettled(500);
  await hanging;
  assert.notEqual(runner.chains("IPv4", "nat").indexOf("A"), -1, "the call took effect");
  ends();

  runner.inject(({ tool }) => tool.startsWith("ip6"), { how: "is missing" });
  await assert.rejects(runner.run({ tool: "ip6tables-save", args: [] }), ToolMissingError);
  await assert.rejects(runner.run({ tool: "a-tool-of-nobody", args: [] }), ToolMissingError);
  assert.equal((await runner.run(call)).exitCode, 0);
  assert.deepEqual(runner.calls.map(({ tool }) => tool), [
    "iptables-restore",
    "iptables-restore",
    "ip6tables-save",
    "a-tool-of-nobody",
    "iptables-restore",
  ]);
  assert.equal(runner.calls[0]!.stdin, input);
  runner.forgetCalls();
  assert.equal(runner.calls.length, 0);
});

Deno.test("lines are passed on one by one if requested", async () => {
  const runner = createFakeRunner();
  await restore(runner, "*nat\n:A - [0:0]\nCOMMIT\n");
  const lines: string[] = [];
  const result = await runner.run({ tool: "iptables-save", args: [], onLine: (line) => lines.push(line) });
  assert.equal(result.stdout, "");
  assert.deepEqual(lines.slice(1, 3), ["*nat", ":PREROUTING ACCEPT [0:0]"]);
});

Deno.test("an input that the fake does not support fails the test", async () => {
  const runner = createFakeRunner();
  const input = "*nat\n-A PREROUTING -m quota --quota 5 -j ACCEPT\nCOMMIT\n";
  await assert.rejects(restore(runner, input), /does not support -m quota/);
});

Deno.test("conntrack lists and deletes matching entries, with one command or many", async () => {
  const runner = createFakeRunner();
  const entry = (destination: string, answer?: string) => ({
    source: destination.includes(":") ? "fd00::1" : "10.0.0.1",
    sourcePort: 1111,
    destination,
    destinationPort: 53,
    ...(answer ? { answeredBy: { address: answer, port: 5353 } } : {}),
  });
  runner.conntrack.push(entry("10.96.0.10", "10.244.1.5"), entry("10.96.0.11"), entry("fd00::11"), entry("10.96.0.12"));
  const run = (args: string, stdin?: string) =>
    runner.run({ tool: "conntrack", args: args.split(" "), stdin: stdin === undefined ? undefined : [stdin] });
  const { stdout } = await run("-L -p udp -f ipv4");
  assert.equal(
    stdout.split("\n")[0],
    "udp      17 29 src=10.0.0.1 dst=10.96.0.10 sport=1111 dport=53 [UNREPLIED] src=10.244.1.5 dst=10.0.0.1 " +
      "sport=5353 dport=1111 mark=0 use=1",
  );
  assert.equal(stdout.trim().split("\n").length, 3);
  assert.deepEqual(await run("-D -p udp --orig-dst 10.96.0.99"), {
    exitCode: 1,
    stdout: "",
    stderr: "conntrack v1.4.7 (conntrack-tools): 0 flow entries have been deleted.\n",
  });
  const file = "-D -p udp --orig-dst 10.96.0.99\n-D -p udp -f ipv4 --orig-dst 10.96.0.10 --dst-nat 10.244.1.5\n" +
    "-D -p udp --orig-dst 10.96.0.11 --dst-nat 10.96.0.11\n-D -p udp -d fd00::11 --dport 53\n";
  assert.equal((await run("--load-file -", file)).exitCode, 0);
  assert.deepEqual(runner.conntrack.map(({ destination }) => destination), ["10.96.0.11", "10.96.0.12"]);
  assert.equal((await run("--load-file -", "-D -p udp -d 10.96.0.11\n-D -p nope\n")).exitCode, 2);
  assert.equal(runner.conntrack.length, 2);
});

Deno.test("sysctl shows and sets existing settings", async () => {
  const runner = createFakeRunner({ sysctls: { "net.ipv4.ip_forward": 0, "kernel.ostype": "Linux" } });
  runner.refusingSysctls.add("kernel.ostype");
  const run = (...args: string[]) => runner.run({ tool: "sysctl", args });
  assert.deepEqual(await run("net.ipv4.ip_forward", "net.ipv4.nope"), {
    exitCode: 1,
    stdout: "net.ipv4.ip_forward = 0\n",
    stderr: "sysctl: cannot stat /proc/sys/net/ipv4/nope: No such file or directory\n",
  });
  assert.deepEqual(await run("-w", "kernel.ostype=x", "net.ipv4.ip_forward=1"), {
    exitCode: 0,
    stdout: "net.ipv4.ip_forward = 1\n",
    stderr: 'sysctl: setting key "kernel.ostype": Invalid argument\n',
  });
  assert.equal(runner.sysctls.get("net.ipv4.ip_forward"), "1");
});

Deno.test("more than ten thousand rules are handled", async () => {
  const runner = createFakeRunner();
  const lines = ["*nat", ":ROOT - [0:0]"];
  for (let i = 0; i < 3_000; i++) {
    const address = `10.${i >> 8}.${i & 255}.1`;
    lines.push(`:SVC-${i} - [0:0]`);
    for (let end = 3; end > 0; end--) {
      const chance = end === 1 ? "" : `-m statistic --mode random --probability ${(1 / end).toFixed(11)} `;
      lines.push(`-A SVC-${i} -p tcp ${chance}-j DNAT --to-destination 10.244.${i & 255}.${end}:8080`);
    }
    lines.push(
      `-A ROOT -d ${address}/32 -p tcp -m comment --comment "ns/svc-${i}:http cluster IP" -m tcp --dport 80 -j SVC-${i}`,
    );
  }
  await restore(runner, `${lines.join("\n")}\n-A PREROUTING -j ROOT\nCOMMIT\n`);
  assert.equal(runner.destinations({ from: "outside", to: "10.11.183.1", port: 80 }).size, 3);
  await restore(runner, "*nat\n:SVC-2999 - [0:0]\n-A SVC-2999 -j RETURN\nCOMMIT\n");
  assert.deepEqual([...runner.destinations({ from: "outside", to: "10.11.183.1", port: 80 })], [["passed", 1]]);
});
