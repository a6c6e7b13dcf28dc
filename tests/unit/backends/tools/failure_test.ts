import assert from "node:assert/strict";
import { constants } from "node:os";
import { type Backend, UnsupportedHostError } from "../../../../backends/contract/backend.ts";
import { createIptablesBackend } from "../../../../backends/iptables/backend.ts";
import { createNftablesBackend } from "../../../../backends/nftables/backend.ts";
import {
  classifyFailure,
  failureOf,
  failureText,
  isHostFailure,
  isLackOfFeature,
  isOutcomeUnknown,
  requireSuccess,
} from "../../../../backends/tools/failure.ts";
import type { Runner, ToolResult } from "../../../../backends/tools/runner.ts";
import { repeatingRunner } from "../../../../backends/tools/wrapped_runners.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { createFakeNftHost } from "../../../fakes/nft_runner.ts";
import { createFakeRunner } from "../../../fakes/runner.ts";

const CREATORS = { iptables: createIptablesBackend, nftables: createNftablesBackend };
const RUNNERS = { iptables: createFakeRunner, nftables: () => createFakeNftHost().runner };

/** A backend whose tools fail in the runs that `fails` selects, counted from 1. */
function backendOf(mode: keyof typeof CREATORS, failure: Omit<ToolResult, "stdout">, fails: (run: number) => boolean) {
  const real = RUNNERS[mode]();
  let runs = 0;
  const runner: Runner = {
    async run(call) {
      if (!fails(++runs)) return await real.run(call);
      await Promise.resolve();
      return { stdout: "", ...failure };
    },
  };
  return CREATORS[mode]({ family: "IPv4", runner, clock: createFakeClock(), logger: silentLogger });
}

async function errorOf(backend: Backend): Promise<unknown> {
  return await backend.setup().then(() => undefined, (error: unknown) => error);
}

const TRANSIENT: Readonly<Record<string, Omit<ToolResult, "stdout">>> = {
  "prints no message": { exitCode: 1, stderr: "" },
  "is killed": { exitCode: 137, stderr: "" },
  "lacks memory": { exitCode: 1, stderr: "Error: Could not process rule: Cannot allocate memory" },
  "lacks buffer space": { exitCode: 4, stderr: "iptables-restore: line 3 failed: No buffer space available" },
};

for (const mode of ["iptables", "nftables"] as const) {
  for (const [how, failure] of Object.entries(TRANSIENT)) {
    Deno.test(`${mode}: a host is not unsupported because a tool ${how}`, async () => {
      // Two of three runs fail: the third try of each tool succeeds.
      assert.equal(await errorOf(backendOf(mode, failure, (run) => run % 3 !== 0)), undefined);
      const error = await errorOf(backendOf(mode, failure, () => true));
      assert.ok(error instanceof Error && !(error instanceof UnsupportedHostError), String(error));
    });
  }

  Deno.test(`${mode}: a host is unsupported if a tool reports a missing feature`, async () => {
    const stderr = mode === "iptables"
      ? "iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist"
      : "/dev/stdin:2:1-9: Error: Could not process rule: Operation not supported";
    const fails = (run: number) => run > 1;
    assert.ok(await errorOf(backendOf(mode, { exitCode: 3, stderr }, fails)) instanceof UnsupportedHostError);
  });
}

Deno.test("a lack of memory does not count as a missing feature of iptables", async () => {
  const real = createFakeRunner();
  real.inject(({ stdin }) => stdin.includes("-m bpf"), TRANSIENT_RESTORE);
  const backend = createIptablesBackend({
    family: "IPv4",
    runner: real,
    clock: createFakeClock(),
    logger: silentLogger,
  });
  const error = await errorOf(backend);
  assert.match(String(error), /cannot determine the features of iptables: .*Cannot allocate memory/);
});

const TRANSIENT_RESTORE = { how: "exits", exitCode: 4, stderr: "RULE_APPEND failed (Cannot allocate memory)" } as const;

/** Messages of tools, by their kind. */
const MESSAGES: Readonly<Record<string, readonly (readonly [tool: string, message: string])[]>> = {
  "unsupported": [
    [
      "ip6tables",
      "ip6tables v1.8.9 (legacy): can't initialize ip6tables table `nat': Table does not exist (do you need to insmod?)",
    ],
    [
      "iptables-restore",
      "iptables-restore v1.8.9 (nf_tables): Couldn't load match `bpf':No such file or directory",
    ],
    ["iptables-restore", "line 3: RULE_APPEND failed (No such file or directory): rule in chain KUBE-SVC-TRIAL"],
    ["iptables-restore", 'iptables-restore v1.6.0: unknown option "--random-fully"'],
    ["nft", "Error: Could not process rule: Operation not supported"],
    ["nft", "Error: syntax error, unexpected numgen"],
    ["ip", "socket: Address family not supported by protocol"],
    ["conntrack", "conntrack v1.4.6 (conntrack-tools): unknown option `--load-file'"],
  ],
  "no resources": [
    ["iptables", "iptables: Resource temporarily unavailable."],
    ["ipset", "Invalid argument (Cannot allocate memory)"],
    ["nft", "netlink: Error: Message too long"],
  ],
  "forbidden": [
    ["nft", "Could not fetch rule set generation id: Permission denied (you must be root)"],
    ["ipvsadm", "Sorry, you must be root"],
  ],
  "busy": [["ip6tables-legacy-restore", "Another app is currently holding the xtables lock; still 4s 0us time ahead"]],
  "unexplained": [["ip", ""], ["ip", " \n"]],
  "absent": [
    ["conntrack", "conntrack v1.4.7 (conntrack-tools): Operation failed: such conntrack doesn't exist"],
    ["nft", "Error: Could not process rule: No such file or directory"],
    ["iptables-restore", "iptables-restore v1.8.9 (nf_tables): Chain 'KUBE-B' does not exist"],
    ["iptables-restore", "iptables-restore v1.8.9 (legacy): Couldn't load target `KUBE-B':No such file or directory"],
    ["iptables-restore", "iptables-restore: line 2 failed: Bad rule (does a matching rule exist in that chain?)."],
    ["ipset", "ipset v7.17: The set with the given name does not exist"],
    ["ipvsadm", "No such service"],
    ["ipvsadm", "Service not defined"],
    ["ipvsadm", "No such destination"],
    ["ip", 'Device "kube-ipvs0" does not exist.'],
    ["ip", 'Cannot find device "kube-ipvs0"'],
    ["ip", "Error: ipv4: FIB table does not exist.\nDump terminated"],
  ],
  "done already": [
    ["conntrack", "conntrack v1.4.6 (conntrack-tools): 0 flow entries have been deleted."],
    ["ipvsadm", "Service already exists"],
    ["ipvsadm", "Destination already exists"],
    ["ip", "RTNETLINK answers: File exists"],
    ["ip", "RTNETLINK answers: Cannot assign requested address"],
    ["ip", "RTNETLINK answers: No such process"],
    // Linux 6.6 and newer.
    ["ip", "Error: ipv4: Address already assigned."],
    ["ip", "Error: ipv6: address already assigned."],
    ["ip", "Error: ipv4: Address not found."],
    ["ip", "Error: ipv6: address not found."],
  ],
  "refused": [
    ["nft", "Error: Could not process rule: Device or resource busy"],
    ["iptables", "iptables: Unknown error 18446744073709551615"],
    ["conntrack", "conntrack v1.4.7 (conntrack-tools): 10 flow entries have been deleted."],
  ],
};

Deno.test("a tool and its message decide the kind of a failure", () => {
  for (const [kind, messages] of Object.entries(MESSAGES)) {
    for (const [tool, message] of messages) assert.equal(classifyFailure(tool, message), kind, `${tool}: ${message}`);
  }
});

Deno.test("a tool's own messages outweigh features, and messages about the host outweigh a tool's own", () => {
  assert.equal(classifyFailure("sysctl", "No such file or directory"), "unsupported");
  assert.equal(classifyFailure("nft", "No such file or directory: Permission denied"), "forbidden");
  assert.equal(failureOf("nft", { exitCode: 137, stdout: "", stderr: "No such file" })!.kind, "killed");
  assert.equal(failureOf("nft", { exitCode: 0, stdout: "", stderr: "No such file" }), undefined);
});

Deno.test("a failure names the signal that ended the tool", () => {
  const { SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGTERM, SIGSYS } = constants.signals;
  const named = { SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGTERM, SIGSYS };
  for (const [name, number] of Object.entries({ ...named, "signal 42": 42 })) {
    assert.equal(failureText("nft", { exitCode: 128 + number, stdout: "", stderr: "" }), `nft was ended by ${name}`);
  }
});

Deno.test("only the exit status of a signal makes a failure a kill", () => {
  const kindOf = (exitCode: number) => failureOf("ipvsadm", { exitCode, stdout: "", stderr: "Memory" })!.kind;
  assert.deepEqual([1, 128, 129, 137, 192, 193, 255].map(kindOf), [
    ...["refused", "refused", "killed", "killed", "killed", "refused", "refused"],
  ]);
});

Deno.test("the text of a failure names the call, its status, and the message in one line", () => {
  const failure = failureOf("nft list table", { exitCode: 1, stdout: "", stderr: "Error: a\n\n  b\n" });
  assert.equal(failure!.text, "nft list table failed with exit status 1: Error: a; b");
  assert.throws(
    () => requireSuccess("ip", { exitCode: 2, stdout: "", stderr: "" }),
    /^Error: ip failed.* 2: no message$/,
  );
});

Deno.test("the kind of a failure says who is at fault, whether it may have had an effect, and whether a retry can help", () => {
  const table: readonly (readonly [kind: ReturnType<typeof classifyFailure>, ...readonly string[]])[] = [
    ["killed", "host", "unknown"],
    ["unexplained", "host", "unknown"],
    ["no resources", "host"],
    ["forbidden", "host"],
    ["busy", "host"],
    ["absent", "lack"],
    ["done already"],
    ["unsupported", "lack"],
    ["refused"],
  ];
  for (const [kind, ...expected] of table) {
    const failure = { kind };
    const found = [
      ...isHostFailure(failure) ? ["host"] : [],
      ...isOutcomeUnknown(failure) ? ["unknown"] : [],
      ...isLackOfFeature(failure) ? ["lack"] : [],
    ];
    assert.deepEqual(found, expected, kind);
  }
});

Deno.test("a check of the host is repeated twice, except for what a repetition cannot change", async () => {
  for (
    const [stderr, wanted] of [["", 3], ["Resource temporarily unavailable", 3], ["unknown option", 1]] as const
  ) {
    let runs = 0;
    const runner = repeatingRunner({
      run() {
        runs++;
        return Promise.resolve({ exitCode: 1, stdout: "", stderr });
      },
    });
    const result = await runner.run({ tool: "iptables", args: [] });
    assert.deepEqual([result.exitCode, runs], [1, wanted], stderr);
  }
});
