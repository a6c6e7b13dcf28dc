import assert from "node:assert/strict";
import { createStateFile, encodeSlot, SLOT_BYTES, type StateOrigin } from "../../../../sources/kept/state_file.ts";
import { createFakeStorage, type FakeStorage } from "../../../fakes/storage.ts";

const ORIGIN: StateOrigin = { node: "node-1", source: "kube https://10.0.0.1:6443", proxyName: "" };
const PATH = "/var/lib/sluice/state";

function state(text: string, atMs = 1) {
  return { payload: new TextEncoder().encode(text), atMs };
}

/** Reads like a new process. */
async function read(storage: FakeStorage, origin = ORIGIN) {
  const { state, ignored } = await createStateFile(PATH, storage).read(origin);
  return { text: state && new TextDecoder().decode(state.payload), atMs: state?.atMs, ignored };
}

Deno.test("a new file has no state, and nothing to complain about", async () => {
  assert.deepEqual(await read(createFakeStorage()), { text: undefined, atMs: undefined, ignored: [] });
});

Deno.test("the last state written is read, by the same and by the next process", async () => {
  const storage = createFakeStorage();
  const file = createStateFile(PATH, storage);
  for (const [i, text] of ["one", "longer than one", "3", "the longest of all states"].entries()) {
    await file.write(ORIGIN, state(text, i));
    assert.deepEqual(await read(storage), { text, atMs: i, ignored: [] });
  }
  await createStateFile(PATH, storage).write(ORIGIN, state("from the next process", 9));
  assert.equal((await read(storage)).text, "from the next process");
});

Deno.test("a write that is cut at any byte leaves the old or the new state readable", async () => {
  const states = ["a", "bb".repeat(40), "c".repeat(30)];
  const storage = createFakeStorage();
  let before: string | undefined;
  for (const text of states) {
    const whole = createFakeStorage(storage.bytes());
    await createStateFile(PATH, whole).write(ORIGIN, state(text));
    // After a byte that changes nothing, the file is as before it.
    for (const cut of [0, ...whole.changes()]) {
      const torn = createFakeStorage(storage.bytes());
      torn.cutAfter(cut);
      await createStateFile(PATH, torn).write(ORIGIN, state(text)).catch(() => {});
      const found = (await read(torn)).text;
      assert.ok(found === before || found === text, `cut after ${cut} bytes of ${text}: ${found}`);
      if (cut < text.length) assert.equal(found, before);
    }
    await createStateFile(PATH, storage).write(ORIGIN, state(text));
    before = text;
  }
});

Deno.test("after a write that failed, the same process goes on with the next one", async () => {
  const storage = createFakeStorage();
  const file = createStateFile(PATH, storage);
  await file.write(ORIGIN, state("one"));
  storage.cutAfter(2);
  await assert.rejects(file.write(ORIGIN, state("two")), /No space left/);
  assert.equal((await read(storage)).text, "one");
  storage.cutAfter(Infinity);
  await file.write(ORIGIN, state("three"));
  assert.deepEqual(await read(storage), { text: "three", atMs: 1, ignored: [] });
});

Deno.test("a byte that the disk changed hides that state alone, and is named", async () => {
  const storage = createFakeStorage();
  const file = createStateFile(PATH, storage);
  await file.write(ORIGIN, state("old"));
  await file.write(ORIGIN, state("new"));
  const bytes = storage.bytes();
  const at = new TextDecoder("latin1").decode(bytes).lastIndexOf("new");
  for (const changed of [at, SLOT_BYTES + 20, SLOT_BYTES + 60]) {
    const broken = createFakeStorage(bytes);
    await broken.write(changed, new Uint8Array([bytes[changed]! ^ 1]));
    const { text, ignored } = await read(broken);
    assert.equal(text, "old");
    assert.match(ignored.join(), /its second slot is torn/);
  }
});

Deno.test("a payload of more than 256 MiB is not read", async () => {
  const storage = createFakeStorage();
  const header = { sequence: 1, atMs: 1, offset: 2 * SLOT_BYTES, length: 2 ** 28 + 1, sha256: "", origin: ORIGIN };
  await storage.write(0, await encodeSlot(header));
  const lengths: number[] = [];
  const counting: FakeStorage = {
    ...storage,
    read(offset, length) {
      lengths.push(length);
      return storage.read(offset, length);
    },
  };
  assert.match((await read(counting)).ignored.join(), /its first slot is torn/);
  assert.deepEqual(lengths, [SLOT_BYTES, SLOT_BYTES]);
});

Deno.test("a state of a later version is named and ignored, and an older one of this version served", async () => {
  const storage = createFakeStorage();
  const file = createStateFile(PATH, storage);
  await file.write(ORIGIN, state("ours"));
  await storage.write(SLOT_BYTES, new TextEncoder().encode("sluice state 3\nwhatever"));
  assert.deepEqual(await read(storage), {
    text: "ours",
    atMs: 1,
    ignored: ["its second slot is of a later version of Sluice (format 3)"],
  });
});

Deno.test("a state of another node, source or proxy name is named and not served", async () => {
  const storage = createFakeStorage();
  await createStateFile(PATH, storage).write(ORIGIN, state("one"));
  const OTHERS: readonly (readonly [Partial<StateOrigin>, string])[] = [
    [{ node: "node-2" }, "node node-2, source kube https://10.0.0.1:6443"],
    [{ source: "kube https://10.9.9.9:6443" }, "node node-1, source kube https://10.9.9.9:6443"],
    [{ source: "grpc://10.0.0.1:12090" }, "node node-1, source grpc://10.0.0.1:12090"],
    [{ proxyName: "edge" }, "node node-1, source kube https://10.0.0.1:6443, service proxy name edge"],
  ];
  for (const [other, wanted] of OTHERS) {
    const { text, ignored } = await read(storage, { ...ORIGIN, ...other });
    assert.equal(text, undefined);
    const found = "node node-1, source kube https://10.0.0.1:6443";
    assert.deepEqual(ignored, [`its state is of another origin (${found}; this is ${wanted})`]);
  }
});

Deno.test("a file of another program is named and never written", async () => {
  const content = new TextEncoder().encode("root:x:0:0:root:/root:/bin/bash\n".repeat(300));
  const storage = createFakeStorage(content);
  assert.match((await read(storage)).ignored.join(), /its first slot is not a state of Sluice/);
  await assert.rejects(createStateFile(PATH, storage).write(ORIGIN, state("one")), /not a state file of Sluice/);
  assert.deepEqual(storage.bytes(), content);
});

Deno.test("a payload is on the disk before the header that names it is written, and that before a write ends", async () => {
  const storage = createFakeStorage(), steps: string[] = [];
  const file = createStateFile(PATH, {
    read: storage.read,
    async write(offset, bytes) {
      steps.push(offset < 2 * SLOT_BYTES ? "header" : "payload");
      await storage.write(offset, bytes);
    },
    async sync() {
      steps.push("sync");
      await storage.sync();
    },
  });
  await file.write(ORIGIN, state("one"));
  assert.deepEqual(steps, ["payload", "sync", "header", "sync"]);
});

Deno.test("a file with a state of Sluice is written, whatever its other slot has become", async () => {
  for (
    const [content, isOurs] of [["sluice state 2\ntorn", true], ["sluice state 99\n", true], ["other", false]] as const
  ) {
    const bytes = new Uint8Array(3 * SLOT_BYTES);
    bytes.set(new TextEncoder().encode(content));
    bytes.set(new TextEncoder().encode("no state"), SLOT_BYTES);
    const storage = createFakeStorage(bytes), file = createStateFile(PATH, storage);
    if (!isOurs) {
      await assert.rejects(file.write(ORIGIN, state("one")), /not a state file/);
      continue;
    }
    await file.write(ORIGIN, state("one"));
    assert.equal((await read(storage)).text, "one");
  }
});

Deno.test("a file of zeros, as a crash leaves behind a file system's log, is written over", async () => {
  const storage = createFakeStorage(new Uint8Array(3 * SLOT_BYTES));
  await createStateFile(PATH, storage).write(ORIGIN, state("one"));
  assert.equal((await read(storage)).text, "one");
});

Deno.test("a payload that the file has already is not written again, only its time", async () => {
  const storage = createFakeStorage();
  await createStateFile(PATH, storage).write(ORIGIN, state("the same ".repeat(1000), 1));
  const before = storage.written();
  await createStateFile(PATH, storage).write(ORIGIN, state("the same ".repeat(1000), 2));
  assert.equal(storage.written() - before, SLOT_BYTES);
  assert.equal((await read(storage)).atMs, 2);
});

Deno.test("the file stays within three times its largest state", async () => {
  const storage = createFakeStorage();
  const file = createStateFile(PATH, storage);
  for (let i = 1; i <= 300; i++) await file.write(ORIGIN, state("x".repeat(1000 + (i * 7919) % 9000) + i));
  assert.ok(storage.bytes().length <= 2 * SLOT_BYTES + 3 * 10_003);
});

Deno.test("calls that overlap take turns", async () => {
  const storage = createFakeStorage();
  const file = createStateFile(PATH, storage);
  const [, , found] = await Promise.all([
    file.write(ORIGIN, state("one")),
    file.write(ORIGIN, state("two")),
    file.read(ORIGIN),
  ]);
  assert.equal(new TextDecoder().decode(found.state!.payload), "two");
});

Deno.test("a header that does not fit is an error, not a torn file", async () => {
  const header = { sequence: 1, atMs: 0, offset: 8192, length: 1, sha256: "", origin: ORIGIN };
  assert.equal((await encodeSlot(header)).length, SLOT_BYTES);
  const source = "unix:///a".repeat(1000);
  await assert.rejects(encodeSlot({ ...header, origin: { ...ORIGIN, source } }), /too long/);
});
