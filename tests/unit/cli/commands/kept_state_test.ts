import assert from "node:assert/strict";
import { openKeptState } from "../../../../cli/commands/run.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { accepted } from "../../config/parse.ts";

Deno.test("a proxy starts without its kept state, and says whether nobody can write it or somebody else could", async () => {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${folder}/open`);
    Deno.chmodSync(`${folder}/open`, 0o777);
    Deno.writeTextFileSync(`${folder}/file`, "");
    for (const [name, code] of [["open", "state-untrusted"], ["file", "state-not-kept"]]) {
      const { configuration } = accepted(["--hostname-override", "here", "--state-directory", `${folder}/${name}`]);
      const codes: string[] = [];
      const state = await openKeptState(
        configuration,
        { clock: createFakeClock() },
        (_, problems) => codes.push(...problems.map((one) => one.code)),
      );
      assert.deepEqual([state, codes], [undefined, [code]]);
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("neither a cleanup, nor --init-only, nor a proxy of files keeps a state", async () => {
  const folder = Deno.makeTempDirSync();
  for (const flags of [["--cleanup"], ["--init-only"], ["--source", "file:none"]]) {
    const { configuration } = accepted(["--state-directory", `${folder}/state`, ...flags]);
    assert.equal(await openKeptState(configuration, { clock: createFakeClock() }, () => assert.fail()), undefined);
  }
  assert.deepEqual([...Deno.readDirSync(folder)], []);
  Deno.removeSync(folder);
});
