import assert from "node:assert/strict";
import { openStateDirectory } from "../../../../sources/kept/folder.ts";

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

withFolder("a file that others may write is not used: it decides where connections go", (folder) => {
  Deno.writeTextFileSync(`${folder}/state`, "");
  Deno.chmodSync(`${folder}/state`, 0o620);
  assert.throws(() => openStateDirectory(folder), /writable by other users/);
});

withFolder("a file that another process uses is not used", (folder) => {
  openStateDirectory(folder);
  assert.throws(() => openStateDirectory(folder), /in use by another process/);
});
