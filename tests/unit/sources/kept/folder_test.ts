import assert from "node:assert/strict";
import { openStateDirectory, UntrustedStateError } from "../../../../sources/kept/state_file.ts";

const ORIGIN = { node: "node-1", source: "kube", proxyName: "" };
const STATE = { payload: new TextEncoder().encode("objects"), atMs: 1 };

function withFolder(name: string, test: (folder: string) => Promise<void> | void): void {
  Deno.test(name, async () => {
    const folder = Deno.makeTempDirSync();
    try {
      await test(folder);
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  });
}

withFolder("the folder and its file are created for their owner alone, and keep a state", async (folder) => {
  const file = openStateDirectory(`${folder}/a/sluice`);
  assert.equal(file.path, `${folder}/a/sluice/state`);
  assert.equal(Deno.statSync(file.path).mode! & 0o777, 0o600);
  assert.equal(Deno.statSync(`${folder}/a/sluice`).mode! & 0o777, 0o700);
  await file.write(ORIGIN, STATE);
  assert.deepEqual((await file.read(ORIGIN)).state, STATE);
});

withFolder("a folder that cannot be created is an error that names it", (folder) => {
  Deno.writeTextFileSync(`${folder}/file`, "");
  assert.throws(() => openStateDirectory(`${folder}/file`), /cannot open .*\/file\/state: /);
});

const chown = (path: string) => Deno.chownSync(path, 65534, null);
for (
  const [name, spoil, message] of [
    ["file that others may write", ({ state }) => Deno.chmodSync(state, 0o602), /\/state has mode 0602, .* needs 0600/],
    [
      "file that a group may write",
      ({ state }) => Deno.chmodSync(state, 0o620),
      /\/state has mode 0620, .* needs 0600/,
    ],
    ["file of another user", ({ state }) => chown(state), /\/state belongs to user 65534, this process is user 0/],
    [
      "folder that others may write",
      ({ folder }) => Deno.chmodSync(folder, 0o1777),
      /sluice has mode 1777, .* needs 0700/,
    ],
    ["folder of another user", ({ folder }) => chown(folder), /sluice belongs to user 65534, this process is user 0/],
  ] as readonly [string, (at: { readonly folder: string; readonly state: string }) => void, RegExp][]
) {
  const needsRoot = name.endsWith("of another user");
  if (needsRoot && Deno.uid() !== 0) continue;
  withFolder(`a ${name} is not used: the state decides where connections go`, (parent) => {
    const folder = `${parent}/sluice`, state = `${folder}/state`;
    Deno.mkdirSync(folder);
    Deno.writeTextFileSync(state, "");
    Deno.chmodSync(state, 0o600);
    spoil({ folder, state });
    assert.throws(() => openStateDirectory(folder), (error) => {
      assert(error instanceof UntrustedStateError);
      assert.match(error.message, message);
      return true;
    });
  });
}

withFolder("in a folder that others may write, no file is created behind a link", (folder) => {
  Deno.chmodSync(folder, 0o777);
  Deno.symlinkSync(`${folder}/elsewhere`, `${folder}/state`);
  assert.throws(() => openStateDirectory(folder), UntrustedStateError);
  assert.throws(() => Deno.statSync(`${folder}/elsewhere`), Deno.errors.NotFound);
});

withFolder("a file that another process uses is not used", (folder) => {
  openStateDirectory(folder);
  assert.throws(() => openStateDirectory(folder), /in use by another process/);
});
