import { describeMode, type Mode, MODE_DESCRIPTIONS, MODES } from "../../../../backends/mod.ts";
import assert from "node:assert/strict";
import { checkListeners, judgeTraces, trustedPorts } from "../../../../backends/preflight/conflicts.ts";
import { findTraces, isKernelEmpty } from "../../../../backends/traces.ts";
import { checkConntrack, checkKernel, checkRights, checkTools } from "../../../../backends/preflight/mod.ts";
import { type Runner, ToolMissingError } from "../../../../backends/tools/runner.ts";
import { type Finding, findingsText, worstOf } from "../../../../core/problems/mod.ts";
import { createFakeRunner } from "../../../fakes/runner.ts";

/** A host with only these tools, each with its output; a leading `!` marks a failure with the rest as its message. */
function host(tools: Readonly<Record<string, string>>): Runner {
  return {
    run({ tool, args, onLine }) {
      const text = tools[`${tool} ${args.join(" ")}`] ?? tools[tool];
      if (text === undefined) return Promise.reject(new ToolMissingError(tool));
      if (text.startsWith("!")) return Promise.resolve({ exitCode: 1, stdout: "", stderr: text.slice(1) });
      if (onLine) { for (const line of text.split("\n")) onLine(line); }
      return Promise.resolve({ exitCode: 0, stdout: onLine ? "" : text, stderr: "" });
    },
  };
}

const [iptables, nftables] = MODES as [Mode, Mode];
const lines = (findings: readonly Finding[]) =>
  findings.map(({ name, verdict, message }) => `${verdict} ${name}: ${message}`);

Deno.test("a missing tool is red if required and yellow if optional", async () => {
  const runner = host({ nft: "nftables v1.0.6 (Lester Gooch #5)\n", sysctl: "!unknown option" });
  const found = lines(await checkTools(describeMode("nftables"), runner));
  assert.match(
    found.join("\n"),
    /^green nft: nftables v1\.0\.6.*\nyellow conntrack: is not installed.*\ngreen sysctl/,
  );
  const judged = await checkTools(describeMode("iptables"), runner);
  assert.deepEqual(judged.map(({ name, verdict }) => `${name} ${verdict}`), [
    "iptables red",
    "ip6tables yellow",
    "conntrack yellow",
    "sysctl green",
  ]);
  assert.match(judged[0]!.fix!, /run apt-get install iptables/);
});

Deno.test("a tool that is too old is named with the version that is needed, and the kernel is not blamed", async () => {
  const runner = host({
    nft: "nftables v0.9.8 (E.D.S.)\n",
    "nft -f -": "!Error: can not use variable sized data types (integer) in concat expressions",
    conntrack: "conntrack v1.4.5 (conntrack-tools)\n",
    sysctl: "sysctl from procps-ng 4.0.2",
    modprobe: "",
  });
  assert.deepEqual(lines(await checkTools(describeMode("nftables"), runner)), [
    "red nft: nft 0.9.8 is too old, 1.0.3 or newer is needed",
    "yellow conntrack: conntrack 1.4.5 is too old, 1.4.6 or newer is needed",
    "green sysctl: sysctl from procps-ng 4.0.2",
  ]);
  assert.deepEqual((await checkKernel(nftables, undefined, runner)).map(({ name }) => name), ["modules"]);
});

/** The findings about the kernel for a mode whose trial fails with these messages. */
function checkFailing(failures: { readonly IPv4?: string; readonly IPv6?: string }, runner = host({ modprobe: "" })) {
  const mode: Mode = {
    ...iptables,
    load: async () => ({
      ...await iptables.load(),
      examine: ({ family }) => failures[family] ? Promise.reject(new Error(failures[family])) : Promise.resolve(),
    }),
  };
  return checkKernel(mode, undefined, runner);
}

Deno.test("a kernel that supports a mode is green, and the trial leaves nothing behind", async () => {
  const runner = createFakeRunner();
  const [kernel] = await checkKernel(iptables, undefined, runner);
  assert.deepEqual(kernel, { name: "kernel", verdict: "green", message: "supports iptables mode (tested)" });
  assert(!runner.dump().includes("KUBE-"), "chains remain");
});

Deno.test("one unsupported family is yellow, two are red, and a missing permission is reported as such", async () => {
  const kernel = async (failures: Parameters<typeof checkFailing>[0]) =>
    (await checkFailing(failures)).slice(0, -1).map(({ name, verdict, code }) => [name, verdict, code]);
  const none = "there is no nat table";
  assert.deepEqual(await kernel({ IPv6: none }), [
    ["kernel IPv4", "green", undefined],
    ["kernel IPv6", "yellow", "family-unsupported"],
  ]);
  assert.deepEqual(await kernel({ IPv4: none, IPv6: none }), [["kernel", "red", "kernel-unfit"]]);
  assert.deepEqual(await kernel({ IPv4: "nft failed: Operation not permitted (you must be root)" }), [
    ["kernel IPv4", "red", "kernel-permission-missing"],
    ["kernel IPv6", "green", undefined],
  ]);
});

Deno.test("a missing tool skips its checks; a missing permission is not a missing feature", async () => {
  const codes = async (mode: Mode, tools: Readonly<Record<string, string>>) =>
    (await checkKernel(mode, undefined, host({ modprobe: "", ...tools }))).map(({ name, code }) => code ?? name);
  assert.deepEqual(await codes(iptables, {}), ["modules"]);
  const forbidden = { nft: "nftables v1.0.6", "nft -f -": "!Error: Could not process rule: Operation not permitted" };
  assert.deepEqual(await codes(nftables, forbidden), ["kernel-permission-missing", "modules"]);
  const lacking = { nft: "nftables v1.0.6", "nft -f -": "!Error: syntax error" };
  assert.deepEqual(await codes(nftables, lacking), ["kernel-unfit", "kernel-unfit", "modules"]);
});

Deno.test("modules unknown to modprobe matter only if the kernel failed the trial", async () => {
  const modules = async (tools: Readonly<Record<string, string>>, failure?: string) =>
    (await checkFailing({ IPv4: failure, IPv6: failure }, host(tools))).at(-1)!;
  const lacking = { "modprobe": "", "modprobe --dry-run --quiet xt_recent": "!" };
  assert.equal((await modules(lacking)).verdict, "green");
  const failing = await modules(lacking, "no");
  assert.equal(failing.verdict, "yellow");
  assert.match(failing.message, /does not find xt_recent$/);
  assert.match((await modules({})).fix!, /kmod/);
});

const SS = `LISTEN 0      4096       127.0.0.1:10249       0.0.0.0:*    users:(("kube-proxy",pid=812,fd=9))
LISTEN 0      4096               *:10256             *:*    users:(("kube-proxy",pid=812,fd=11))
LISTEN 0      128             [::]:22             [::]:*    users:(("sshd",pid=1,fd=4),("systemd",pid=2,fd=5))
`;

/** The listening processes, as `ss` lists them. */
const listening = (ss: string) => host({ "ss -Htlnp": ss });

Deno.test("a running proxy is reported once, on whatever port, and named with its process", async () => {
  const table = [
    ["kube-proxy", "red", "other-proxy"],
    ["kpng", "red", "other-proxy"],
    ["cilium-agent", "yellow", "possible-other-proxy"],
    ["kube-router", "yellow", "possible-other-proxy"],
  ] as const;
  for (const [process, verdict, code] of table) {
    for (const ports of [[10256, 10249], [1]]) {
      const findings = await checkListeners(listening(SS.replaceAll("kube-proxy", process)), ports, false);
      assert.deepEqual(findings.map((one) => [one.name, one.verdict, one.code]), [[process, verdict, code]]);
      assert.match(findings[0]!.message, /^running \(pid 812\)/);
    }
  }
  assert.deepEqual(lines(await checkListeners(listening(SS), [22], false)).slice(1), [
    "yellow port 22: in use by sshd (pid 1)",
  ]);
});

Deno.test("other users of the ports are reported: k3s, unknown programs and hidden processes", async () => {
  const judge = async (process: string, sluiceRuns = false, port = 10256) => {
    const users = process === "" ? "" : `users:(("${process}",pid=7,fd=3))`;
    const runner = listening(`LISTEN 0 4096 *:${port} *:* ${users}\n`);
    return lines(await checkListeners(runner, [10256, 10249], sluiceRuns)).join("\n");
  };
  assert.match(await judge("k3s-server"), /^red k3s-server: running \(pid 7\).*contains kube-proxy/);
  assert.match(await judge("k3s-server", false, 6443), /^green/, "a k3s without kube-proxy");
  assert.match(await judge("nginx"), /^yellow port 10256: in use by nginx \(pid 7\)/);
  assert.match(await judge("nginx", false, 80), /^green other proxies: none listening/);
  assert.match(await judge(""), /^yellow port 10256: .*visible to root only/);
  assert.match(await judge("sluice", true), /^green other proxies: none except the running Sluice/);
  assert.match(await judge("", true), /^green/);
  assert.match(lines(await checkListeners(host({}), [1], false)).join(), /^yellow .*without ss/);
});

const NAT = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-ERIFXISQEP7F7OF4 - [0:0]
:KUBE-SEP-ABCDEFGHIJKLMNOP - [0:0]
COMMIT
`;

Deno.test("state left by other proxies is taken over by the same mode and removed by another", async () => {
  const traces = await findTraces(
    MODE_DESCRIPTIONS,
    host({
      "iptables-save": NAT,
      "ip6tables-save": "",
      nft: "table ip filter\ntable ip kube-proxy\ntable ip6 kube-proxy\n",
      ip: "!Device does not exist",
    }),
  );
  assert.deepEqual([...traces.byMode].map(([{ name }, names]) => [name, names]), [
    ["iptables", ["KUBE-SVC-ERIFXISQEP7F7OF4", "KUBE-SEP-ABCDEFGHIJKLMNOP"]],
    ["nftables", ["ip kube-proxy", "ip6 kube-proxy"]],
    ["ipvs", []],
  ]);
  assert.equal(traces.unreadable, undefined);
  const verdicts = judgeTraces(traces, "iptables", undefined).map(({ verdict, message }) => `${verdict} ${message}`);
  assert.match(verdicts[0]!, /^green found 2 chains of services \(mode iptables\); .*takes them over/);
  assert.match(verdicts[1]!, /^yellow found the tables ip kube-proxy, ip6 kube-proxy/);
  assert.equal(judgeTraces(traces, "ipvs", "nftables").length, 1, "a running Sluice's own state is not reported");
  const beside = judgeTraces({ ...traces, legacyBeside: true }, "iptables", "iptables").at(-1)!;
  assert.deepEqual([beside.name, beside.verdict], ["iptables", "yellow"]);
  assert.match(beside.fix!, /iptables-legacy-save/);
  const hidden = await findTraces(
    MODE_DESCRIPTIONS,
    host({ "iptables-save": "!Permission denied", nft: "!Operation not permitted" }),
  );
  assert.match(
    lines(judgeTraces(hidden, "iptables", undefined)).join("\n"),
    /^yellow rules: cannot be .*Permission denied/,
  );
  const none = await findTraces(MODE_DESCRIPTIONS, host({}));
  assert.deepEqual(lines(judgeTraces(none, "iptables", undefined)), ["green rules: none left by another proxy"]);
});

Deno.test("a kernel is empty if every tool that is installed shows no rules of a proxy", async () => {
  const isEmpty = (output: Record<string, string>) => isKernelEmpty(MODE_DESCRIPTIONS, host(output));
  const EMPTY = { "iptables-save": "*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n", ip: "!Device does not exist" };
  assert.equal(await isEmpty(EMPTY), true);
  assert.equal(await isEmpty({ ...EMPTY, nft: "table ip filter\n" }), true);
  assert.equal(await isEmpty({ ...EMPTY, nft: "table ip6 sluice\n" }), false);
  assert.equal(await isEmpty({ ...EMPTY, "ip6tables-save": NAT }), false);
  assert.equal(await isEmpty({ ...EMPTY, nft: "!Operation not permitted" }), false, "unknown");
});

Deno.test("a nearly full connection table is reported unless the configuration makes room", async () => {
  const command = "sysctl -n net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max";
  const check = (sysctl: string, wanted?: number) => checkConntrack(host({ [command]: sysctl }), wanted);
  assert.equal((await check("96\n100\n")).verdict, "red");
  assert.equal((await check("80\n100\n")).verdict, "yellow");
  assert.equal((await check("10\n100\n", 50)).verdict, "green");
  const raised = await check("96\n100\n", 131_072);
  assert.equal(raised.verdict, "green");
  assert.match(raised.message, /^96 of 100 connections tracked; Sluice raises the limit to 131072/);
  // The limits themselves.
  for (const [count, verdict] of [["74", "green"], ["75", "yellow"], ["94", "yellow"], ["95", "red"]] as const) {
    assert.equal((await check(`${count}\n100\n`)).verdict, verdict, count);
  }
  assert.match((await check("96\n100\n", 100)).message, /^96 of 100 connections tracked: new/, "nothing is raised");
  const unreadable = await check("!cannot stat", 1);
  assert.equal(unreadable.verdict, "yellow");
  assert.match(unreadable.message, /cannot be read/);
  const withoutTool: Runner = { run: ({ tool }) => Promise.reject(new ToolMissingError(tool)) };
  assert.deepEqual(await checkConntrack(withoutTool, 1), unreadable);
});

Deno.test("the worst verdict wins, and every finding that is not green has a fix", () => {
  const green = { name: "a", verdict: "green", message: "is there" } as const;
  const [yellow] = checkRights(1000);
  assert.deepEqual(lines(checkRights(0)), ["green privileges: running as root"]);
  assert.equal(worstOf([green]), "green");
  assert.equal(worstOf([green, yellow!]), "yellow");
  assert.equal(worstOf([yellow!, { name: "c", verdict: "red", message: "", fix: "" }, green]), "red");
  assert.equal(worstOf([]), "green");
  assert.equal(findingsText([green, yellow!]).split("\n")[0], "green   a           is there");
  assert.match(findingsText([green, yellow!]), /\nyellow {2}privileges {2}running as user 1000.*; fix: run sudo/);
});

Deno.test("a tool that a signal ends is named with its version, and the kernel is not blamed", async () => {
  const runner: Runner = {
    run: ({ args }) =>
      Promise.resolve(
        args[0] === "--version"
          ? { exitCode: 0, stdout: "nftables v1.0.6 (Lester Gooch #5)\n", stderr: "" }
          : { exitCode: 139, stdout: "", stderr: "" },
      ),
  };
  const findings = await checkKernel(nftables, undefined, runner);
  assert.deepEqual(lines(findings).slice(0, -1), [
    "red nft: nftables v1.0.6 (Lester Gooch #5): nft was ended by SIGSEGV; before 1.1, it ends with SIGSEGV if another " +
    "program's table has a set that a newer nft has made; then install nft 1.1 or newer, or set --proxy-mode iptables",
  ]);
  assert.equal(findings[0]!.code, "tool-killed");
});

Deno.test("iptables-save says if the other variant of iptables has rules, too", async () => {
  const beside = async (stderr: string) => {
    const run = () => Promise.resolve({ exitCode: 0, stdout: "", stderr });
    return (await findTraces(MODE_DESCRIPTIONS, { run })).legacyBeside;
  };
  assert.equal(await beside("# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n"), true);
  assert.equal(await beside("# Warning: something else\n"), false);
});

Deno.test("ports are trusted at which only root and this user listen", async () => {
  const listeners = [
    "LISTEN 0 128 0.0.0.0:10256 0.0.0.0:* ino:1 sk:1 cgroup:/ <->",
    "LISTEN 0 128 127.0.0.1:10249 0.0.0.0:* ino:2 sk:2 cgroup:/ <->",
    "LISTEN 0 10 [::1]:10249 [::]:* uid:65534 ino:3 sk:3 cgroup:/ v6only:1 <->",
    "LISTEN 0 10 *:9000 *:* uid:1000 ino:4 sk:4 cgroup:/ v6only:0 <->",
  ];
  const runner = host({ ss: listeners.join("\n") });
  assert.deepEqual([...await trustedPorts(runner, 0)], [10256]);
  assert.deepEqual([...await trustedPorts(runner, 1000)], [10256, 9000]);
  assert.deepEqual([...await trustedPorts(host({}), 0)], []);
});
