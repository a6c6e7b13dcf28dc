import assert from "node:assert/strict";
import { followConfiguration, ignoredIn } from "../../../config/reload.ts";
import { createProblemBoard } from "../../../core/problems/mod.ts";
import { createLogger } from "../../../platform/log.ts";
import { createFakeClock } from "../../fakes/clock.ts";
import { accepted, HEADER, parse } from "./parse.ts";
import { until } from "../../fakes/wait.ts";

/** A follower of kp.yaml, whose content a test replaces; the file is read when the clock advances. */
function follow(content: string) {
  const files: { "kp.yaml"?: string } = { "kp.yaml": HEADER + content };
  const clock = createFakeClock();
  const lines: string[] = [];
  let reads = 0, texts = 0;
  const logger = createLogger({ level: "info", format: "text", clock, write: (line) => lines.push(line.slice(25)) });
  const end = new AbortController();
  const board = createProblemBoard(clock, logger);
  const next = followConfiguration({
    path: "kp.yaml",
    read() {
      reads++;
      return Promise.resolve(parse(["--config", "kp.yaml"], { files }));
    },
    readText(path) {
      texts++;
      const text = files[path as keyof typeof files];
      if (text === undefined) throw new Error("no such file");
      return text;
    },
    clock,
    logger,
    onProblems: (scope, problems) => board.report(scope, problems),
    signal: end.signal,
    openWatch: () => {
      throw new Error("no watches here");
    },
  });
  const { configuration } = accepted(["--config", "kp.yaml"], { files });
  return {
    lines,
    reads: () => reads,
    texts: () => texts,
    clock,
    problems: () => board.current().map(({ code, subject }) => `${code} ${subject}`),
    configuration,
    next: () => next(configuration),
    end: () => end.abort(),
    /** Writes a file with this content after the header; undefined removes it. */
    async write(content: string | undefined) {
      files["kp.yaml"] = content === undefined ? undefined : HEADER + content;
      // The follower checks the folder before it waits.
      await until(() => clock.pending().length > 0);
      await clock.advanceSettled(10_000);
    },
  };
}

Deno.test("a changed configuration file yields the new configuration", async () => {
  const file = follow("mode: iptables\n");
  const next = file.next();
  await file.write("mode: nftables\nportRange: 1-2\n");
  assert.equal((await next)?.mode, "nftables");
});

Deno.test("a file without events is read every ten seconds", async () => {
  const file = follow("mode: iptables\n"), { clock, texts } = file;
  const next = file.next();
  await until(() => clock.pending().length > 0);
  await clock.advanceSettled(9_999);
  assert.equal(texts(), 1, "when it began to be followed");
  await clock.advanceSettled(1);
  await until(() => clock.pending().length > 0);
  assert.equal(texts(), 2);
  file.end();
  assert.equal(await next, undefined);
});

Deno.test("an invalid configuration file is logged once with its line, and the next valid one is applied", async () => {
  const file = follow("mode: iptables\n");
  const next = file.next();
  await file.write("mode: nftables\nnftables:\n  masqueradeBit: 99\n");
  await file.write("mode: nftables\nnftables:\n  masqueradeBit: 99\n");
  assert.equal(file.lines.length, 1, file.lines.join(""));
  assert.match(
    file.lines[0]!,
    /^ERROR the configuration is invalid; a running proxy.*kp\.yaml:5: nftables\.masqueradeBit/,
  );
  assert.deepEqual(file.problems(), ["configuration-invalid kp.yaml"]);
  await file.write("mode: nftables\n");
  assert.equal((await next)?.mode, "nftables");
  assert.deepEqual(file.problems(), []);
});

Deno.test("an unknown field that is added is a problem with its line and a suggestion, until it is removed", async () => {
  const file = follow("mode: iptables\n");
  file.next();
  await file.write("mode: iptables\nfailovr:\n  attempts: 3\n");
  assert.match(
    file.lines.join(""),
    /WARN +parts of the configuration are ignored.*kp\.yaml:4: .*failovr.*did you mean "?failover/,
  );
  assert.deepEqual(file.problems(), ["configuration-ignored kp.yaml"]);
  await file.write("mode: iptables\n");
  assert.deepEqual(file.problems(), []);
  file.end();
});

Deno.test("an invalid configuration file that is changed back is no problem any more", async () => {
  const file = follow("mode: iptables\n");
  file.next();
  await file.write("mode: {\n");
  assert.equal(file.problems().length, 1);
  await file.write("mode: iptables\n");
  assert.deepEqual(file.problems(), []);
  file.end();
});

Deno.test("an unreadable or partially written file leaves the configuration unchanged", async () => {
  const file = follow("mode: iptables\n");
  const next = file.next();
  await file.write("mode: {\n");
  assert.match(file.lines[0]!, /^ERROR the configuration is invalid/);
  await file.write("mode: ipvs\n");
  assert.equal((await next)?.mode, "ipvs");
});

Deno.test("a file that is removed leaves the configuration unchanged, and is a problem until it is back", async () => {
  const file = follow("mode: iptables\n");
  const next = file.next();
  await file.write(undefined);
  assert.deepEqual(file.problems(), ["configuration-invalid kp.yaml"]);
  await file.write("mode: iptables\n");
  assert.deepEqual(file.problems(), []);
  await file.write("mode: nftables\n");
  assert.equal((await next)?.mode, "nftables");
});

Deno.test("a changed comment has no effect, and the end of the run ends the wait", async () => {
  const file = follow("mode: iptables\n");
  const next = file.next();
  await file.write("# as it was\nmode: iptables\n");
  assert.match(file.lines[0]!, /^INFO {2}configuration file changed without effect/);
  file.end();
  assert.equal(await next, undefined);
});

Deno.test("another spelling of a value has no effect", async () => {
  const file = follow("clusterCIDR: fd00::/8\n");
  const next = file.next();
  await file.write("clusterCIDR: FD00:0::/8\n");
  assert.match(file.lines[0]!, /^INFO {2}configuration file changed without effect/);
  file.end();
  assert.equal(await next, undefined);
});

Deno.test("what is ignored is in the file, or else in the flags", () => {
  const subjects = ["kp.yaml", undefined].map((path) => ignoredIn(path, ["a", "b"]).map(({ subject }) => subject));
  assert.deepEqual(subjects, [["kp.yaml"], ["flags"]]);
  assert.deepEqual(ignoredIn("kp.yaml", []), []);
});

Deno.test("a file that is as it was is not parsed", async () => {
  const file = follow("mode: iptables\n");
  file.next();
  await file.write("mode: iptables\n");
  assert.equal(file.reads(), 0);
  await file.write("mode: iptables\n#\n");
  await file.write("mode: iptables\n#\n");
  assert.equal(file.reads(), 1);
  file.end();
});

Deno.test("settings that need a restart are a problem until the file has the earlier ones again", async () => {
  const file = follow("mode: iptables\n");
  const next = file.next();
  await file.write("mode: iptables\noomScoreAdj: -5\n");
  assert.deepEqual(file.problems(), ["restart-needed kp.yaml"]);
  assert.match(file.lines[0]!, /not in effect yet: oomScoreAdj/);
  await file.write("mode: iptables\n");
  assert.deepEqual(file.problems(), []);
  await file.write("mode: nftables\noomScoreAdj: -5\nclientConnection: {kubeconfig: /k}\n");
  const { mode, oomScoreAdj, kubeconfig } = (await next)!;
  const { oomScoreAdj: score, kubeconfig: path } = file.configuration;
  assert.deepEqual([mode, oomScoreAdj, kubeconfig], ["nftables", score, path]);
  assert.match(file.lines.at(-1)!, /not in effect yet: clientConnection\.kubeconfig, oomScoreAdj/);
});
