import assert from "node:assert/strict";
import { COMMANDS, contextOf } from "../../cli/commands/mod.ts";
import { readCommandLine } from "../../config/command_line.ts";
import { followConfiguration } from "../../config/reload.ts";
import type { Problem } from "../../core/problems/mod.ts";
import { readTlsFiles } from "../../kpng/address/mod.ts";
import { readTextWithin, readTextWithinSync } from "../../platform/files.ts";
import { silentLogger } from "../../platform/log.ts";
import { createFakeClock } from "../fakes/clock.ts";
import { until } from "../fakes/wait.ts";
import { accepted, HEADER } from "../unit/config/parse.ts";

Deno.test("a pipe in place of a file is an error, and nothing waits for a writer", async () => {
  const folder = await Deno.makeTempDir(), path = `${folder}/pipe`;
  try {
    await new Deno.Command("mkfifo", { args: [path] }).output();
    await assert.rejects(readTextWithin(path, 12), /a pipe, not a file/);
    assert.throws(() => readTextWithinSync(path, 12), /a pipe, not a file/);
    assert.throws(
      () => readTlsFiles({ ca: path, crt: "", key: "" }, "--listen-tls"),
      /--listen-tls-ca: cannot read .* a pipe, not a file/,
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a configuration file that becomes a pipe is a problem, and the settings stay", async () => {
  const folder = await Deno.makeTempDir(), path = `${folder}/kp.yaml`;
  const clock = createFakeClock(), end = new AbortController(), problems: Problem[] = [];
  try {
    Deno.writeTextFileSync(path, HEADER);
    const next = followConfiguration({
      path,
      read: () => readCommandLine(["run", "--config", path], contextOf(COMMANDS)),
      clock,
      logger: silentLogger,
      onProblems: (_, found) => problems.push(...found),
      signal: end.signal,
      openWatch: () => {
        throw new Error("no watches here");
      },
    })(accepted([]).configuration);
    Deno.removeSync(path);
    await new Deno.Command("mkfifo", { args: [path] }).output();
    await until(() => clock.pending().length > 0);
    await clock.advanceSettled(10_000);
    assert.deepEqual(problems.map(({ detail }) => detail), [
      `--config: cannot read ${path}: it is a pipe, not a file`,
    ]);
    end.abort();
    assert.equal(await next, undefined);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
