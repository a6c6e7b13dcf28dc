import assert from "node:assert/strict";
import { basename, dirname, join } from "node:path";
import { type ClusterObject, type ObjectRef, refOf } from "../../../../core/objects/cluster_object.ts";
import { createManifestSource, type ManifestSourceOptions } from "../../../../sources/manifests/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { sayProblems } from "../../../fakes/problems.ts";
import { inTime } from "../../../fakes/wait.ts";

/** A source's calls as lines such as `set Service default/web`, `synced Node` and `problem WHERE MESSAGE`. */
interface Recorded {
  readonly objects: ReadonlyMap<string, ClusterObject>;
  /** Resolves with all new lines, when one of them matches. */
  until(pattern: RegExp): Promise<readonly string[]>;
}

interface Running {
  readonly folder: string;
  readonly recorded: Recorded;
  /** Writes a file at once: a source that reads one while it is written may find it empty. */
  write(name: string, text: string): Promise<void>;
}

type Options = Partial<Omit<ManifestSourceOptions, "path">> & { readonly file?: string };

/** Runs `test` with a source on a new folder, or on `file` in it, after `prepare` has filled it. */
async function withSource(
  options: Options,
  prepare: (write: Running["write"], folder: string) => Promise<void>,
  test: (running: Running) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "sluice-manifests-" });
  const abort = new AbortController();
  const write: Running["write"] = async (name, text) => {
    await Deno.writeTextFile(join(folder, `.${name}.new`), text);
    await Deno.rename(join(folder, `.${name}.new`), join(folder, name));
  };
  await prepare(write, folder);
  const { recorded, sink } = recordingSink(folder);
  const { file, ...rest } = options;
  const source = createManifestSource({
    path: file === undefined ? folder : join(folder, file),
    clock: systemClock,
    logger: silentLogger,
    quietMs: 30,
    pollMs: 60_000,
    ...rest,
  });
  const running = source.run(sink, abort.signal);
  try {
    await test({ folder, recorded, write });
  } finally {
    abort.abort();
    await running;
    await Deno.remove(folder, { recursive: true });
  }
}

function recordingSink(folder: string) {
  const objects = new Map<string, ClusterObject>();
  let lines: string[] = [];
  let woken = () => {};
  const record = (line: string) => {
    lines.push(line.replaceAll(`${folder}/`, "").replaceAll(folder, "FOLDER"));
    woken();
  };
  const key = (ref: ObjectRef) => `${ref.kind} ${ref.namespace}/${ref.name}`;
  const recorded: Recorded = {
    objects,
    async until(pattern) {
      while (!lines.some((line) => pattern.test(line))) {
        await inTime(() => `${pattern} in ${JSON.stringify(lines)}`, new Promise<void>((resolve) => woken = resolve));
      }
      const taken = lines;
      lines = [];
      return taken;
    },
  };
  const sink = {
    set(object: ClusterObject) {
      objects.set(key(refOf(object)), object);
      record(`set ${key(refOf(object))}`);
    },
    delete(ref: ObjectRef) {
      objects.delete(key(ref));
      record(`delete ${key(ref)}`);
    },
    synced: (kind: string) => record(`synced ${kind}`),
    reset: (kind: string) => record(`reset ${kind}`),
    problems: sayProblems((where, message) => record(`problem ${where} ${message}`)),
  };
  return { recorded, sink };
}

function service(name: string, clusterIP = "10.0.0.1"): string {
  return `apiVersion: v1\nkind: Service\nmetadata:\n  name: ${name}\nspec:\n  clusterIP: ${clusterIP}\n  ports: [{port: 80}]\n`;
}

/** A watch with events from a test. */
function manualWatch() {
  const { readable, writable } = new TransformStream<Deno.FsEvent, Deno.FsEvent>();
  const writer = writable.getWriter();
  return {
    [Symbol.asyncIterator]: () => readable.values(),
    close: () => void writer.close(),
    emit: (event: Pick<Deno.FsEvent, "kind" | "paths">) => void writer.write(event),
  };
}

const ALL_SYNCED = ["synced Service", "synced EndpointSlice", "synced Node", "synced ServiceCIDR"];
const nothing = () => Promise.resolve();

Deno.test("a folder is read in the order of its names, and synced is sent once for every kind", async () => {
  await withSource({}, async (write) => {
    await write("b.yml", `${service("b1")}---\n${service("b2")}`);
    await write("a.json", '{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}');
    await write(".hidden.yaml", "not a manifest");
    await write("notes.txt", "not a manifest");
  }, async ({ recorded, write }) => {
    assert.deepEqual(await recorded.until(/synced ServiceCIDR/), [
      "set Service default/a",
      "set Service default/b1",
      "set Service default/b2",
      ...ALL_SYNCED,
    ]);
    await write("c.yaml", service("c"));
    assert.deepEqual(await recorded.until(/set/), ["set Service default/c"]);
  });
});

Deno.test("a change of one document reports only its object", async () => {
  await withSource(
    {},
    (write) => write("a.yaml", `${service("one")}---\n${service("two")}`),
    async ({ recorded, write }) => {
      await recorded.until(/synced ServiceCIDR/);
      await write("a.yaml", `# moved\n${service("one")}---\n${service("two", "10.0.0.2")}`);
      assert.deepEqual(await recorded.until(/set/), ["set Service default/two"]);
      const two = recorded.objects.get("Service default/two");
      assert.deepEqual(two?.kind === "Service" && two.clusterIPs, ["10.0.0.2"]);
    },
  );
});

Deno.test("a file that is replaced or written in place is read again", async () => {
  await withSource(
    { file: "a.yaml" },
    (write) => write("a.yaml", service("one")),
    async ({ recorded, write, folder }) => {
      await recorded.until(/synced ServiceCIDR/);
      const inPlace: Running["write"] = (file, text) => Deno.writeTextFile(join(folder, file), text);
      for (const [name, how] of [["two", write], ["three", write], ["four", inPlace]] as const) {
        await how("a.yaml", service(name));
        assert.ok((await recorded.until(/set/)).includes(`set Service default/${name}`));
        assert.deepEqual([...recorded.objects.keys()], [`Service default/${name}`]);
      }
    },
  );
});

Deno.test("a changed link is followed, as in a mounted ConfigMap", async () => {
  await withSource({}, async (_, folder) => {
    for (const version of ["one", "two"]) {
      await Deno.mkdir(join(folder, `..${version}`));
      await Deno.writeTextFile(join(folder, `..${version}`, "a.yaml"), service(version));
    }
    await Deno.symlink("..one", join(folder, "..data"));
    await Deno.symlink("..data/a.yaml", join(folder, "a.yaml"));
  }, async ({ recorded, folder }) => {
    await recorded.until(/synced ServiceCIDR/);
    await Deno.symlink("..two", join(folder, "..data_tmp"));
    await Deno.rename(join(folder, "..data_tmp"), join(folder, "..data"));
    assert.deepEqual(await recorded.until(/set/), ["delete Service default/one", "set Service default/two"]);
  });
});

Deno.test("an invalid document is reported with file and line, and the file's last valid version stays", async () => {
  await withSource({}, async (write) => {
    await write("a.yaml", service("a"));
    await write("b.yaml", service("b"));
  }, async ({ recorded, write, folder }) => {
    await recorded.until(/synced ServiceCIDR/);
    await write("a.yaml", `${service("new")}---\nkind: Service\n\tmetadata: {}\n`);
    const [problem, ...more] = await recorded.until(/problem/);
    assert.match(problem!, /^problem a\.yaml:10 .*; the last valid version of the file stays in effect$/);
    assert.deepEqual(more, []);
    await write("a.yaml", await Deno.readTextFile(join(folder, "a.yaml")));
    await write("b.yaml", service("b", "10.0.0.2"));
    assert.deepEqual(await recorded.until(/set/), ["set Service default/b"]);
    assert.ok(recorded.objects.has("Service default/a"));
    await write("a.yaml", service("new"));
    assert.deepEqual(await recorded.until(/set/), ["delete Service default/a", "set Service default/new"]);
  });
});

Deno.test("an invalid file does not affect others, but alone it is not an empty cluster", async () => {
  const bad = "kind: [Service\n";
  await withSource({}, (write) => write("a.yaml", bad), async ({ recorded, write }) => {
    const [problem, ...more] = await recorded.until(/problem/);
    assert.match(problem!, /^problem a\.yaml:\d .*; the file is ignored until it is valid$/);
    assert.deepEqual(more, []);
    await write("b.yaml", service("b"));
    assert.deepEqual(await recorded.until(/synced ServiceCIDR/), ["set Service default/b", ...ALL_SYNCED]);
  });
});

Deno.test("a problem of an object is reported once with its line, and the rest of it is served", async () => {
  const text = `${service("a")}---\n${service("b", "example")}`;
  await withSource({}, (write) => write("a.yaml", text), async ({ recorded, write }) => {
    assert.deepEqual(await recorded.until(/synced ServiceCIDR/), [
      'problem a.yaml:9 Service default/b: cluster IP "example" is not an IP address; ignored',
      "set Service default/a",
      "set Service default/b",
      ...ALL_SYNCED,
    ]);
    await write("a.yaml", `${text}---\n${service("c")}`);
    assert.deepEqual(await recorded.until(/set/), ["set Service default/c"]);
  });
});

Deno.test("a removed file removes its objects", async () => {
  await withSource({}, async (write) => {
    await write("a.yaml", service("a"));
    await write("b.yaml", service("b"));
  }, async ({ recorded, folder }) => {
    await recorded.until(/synced ServiceCIDR/);
    await Deno.remove(join(folder, "a.yaml"));
    assert.deepEqual(await recorded.until(/delete/), ["delete Service default/a"]);
  });
});

Deno.test("of duplicate objects the first counts, and the second replaces it when it is removed", async () => {
  await withSource({}, async (write) => {
    await write("a.yaml", `# one\n${service("web", "10.0.0.1")}`);
    await write("b.yaml", service("web", "10.0.0.2"));
  }, async ({ recorded, folder }) => {
    assert.deepEqual(await recorded.until(/synced ServiceCIDR/), [
      "problem b.yaml:1 Service default/web is also defined at a.yaml:2; this duplicate is ignored",
      "set Service default/web",
      ...ALL_SYNCED,
    ]);
    const clusterIPs = () => {
      const object = recorded.objects.get("Service default/web");
      return object?.kind === "Service" ? object.clusterIPs : undefined;
    };
    assert.deepEqual(clusterIPs(), ["10.0.0.1"]);
    await Deno.remove(join(folder, "a.yaml"));
    assert.deepEqual(await recorded.until(/set/), ["set Service default/web"]);
    assert.deepEqual(clusterIPs(), ["10.0.0.2"]);
  });
});

Deno.test("a missing path is reported and waited for", async () => {
  await withSource({ file: "late.yaml" }, nothing, async ({ recorded, write }) => {
    assert.deepEqual(await recorded.until(/problem/), [
      "problem late.yaml no such file or folder",
    ]);
    await write("late.yaml", service("late"));
    assert.deepEqual(await recorded.until(/synced ServiceCIDR/), ["set Service default/late", ...ALL_SYNCED]);
  });
});

Deno.test("a folder that disappears is a problem and changes nothing, unlike one that is emptied", async () => {
  await withSource({ pollMs: 5 }, (write) => write("a.yaml", service("a")), async ({ recorded, write, folder }) => {
    await recorded.until(/synced ServiceCIDR/);
    await Deno.rename(folder, `${folder}-gone`);
    const seen = await recorded.until(/problem/);
    assert.deepEqual(seen, ["problem FOLDER no such file or folder; its last valid version stays in effect"]);
    assert.deepEqual([...recorded.objects.keys()], ["Service default/a"]);
    await Deno.rename(`${folder}-gone`, folder);
    await write("b.yaml", service("b"));
    assert.deepEqual(await recorded.until(/set/), ["set Service default/b"]);
    await Deno.remove(join(folder, "a.yaml"));
    await Deno.remove(join(folder, "b.yaml"));
    await recorded.until(/delete Service default\/b/);
    assert.equal(recorded.objects.size, 0);
  });
});

Deno.test("a folder that disappears while its files are looked for, or read, changes nothing", async () => {
  const { stat } = Deno;
  let readsGone = false;
  const leave = (path: string) => Deno.renameSync(dirname(path), `${dirname(path)}-gone`);
  const readText = (path: string) => {
    if (readsGone) leave(path);
    return Deno.readTextFile(path);
  };
  await withSource(
    { readText, pollMs: 5 },
    (write) => write("a.yaml", service("a")),
    async ({ recorded, write, folder }) => {
      const staysInEffect = async () => {
        assert.deepEqual(await recorded.until(/problem/), [
          "problem FOLDER no such file or folder; its last valid version stays in effect",
        ]);
        readsGone = false;
        Deno.renameSync(`${folder}-gone`, folder);
      };
      await recorded.until(/synced ServiceCIDR/);
      const file = join(folder, "a.yaml");
      try {
        Deno.stat = (path) => {
          if (path === file) {
            Deno.stat = stat;
            leave(file);
          }
          return stat(path);
        };
        await staysInEffect();
      } finally {
        Deno.stat = stat;
      }
      readsGone = true;
      await write("a.yaml", service("a", "10.0.0.2"));
      await staysInEffect();
      assert.deepEqual(await recorded.until(/set/), ["set Service default/a"]);
    },
  );
});

Deno.test("an empty folder is a cluster without services", async () => {
  await withSource({}, nothing, async ({ recorded }) => {
    assert.deepEqual(await recorded.until(/synced ServiceCIDR/), ALL_SYNCED);
  });
});

Deno.test("without a watch, changes are found by polling", async () => {
  const openWatch = () => {
    throw new Error("inotify: no space left on device");
  };
  await withSource(
    { openWatch, pollMs: 5 },
    (write) => write("a.yaml", service("a")),
    async ({ recorded, write, folder }) => {
      await recorded.until(/synced ServiceCIDR/);
      await write("a.yaml", service("other"));
      assert.ok((await recorded.until(/set/)).includes("set Service default/other"));
      await Deno.remove(join(folder, "a.yaml"));
      await recorded.until(/delete Service default\/other/);
    },
  );
});

Deno.test("a replaced folder is watched again", async () => {
  await withSource({ pollMs: 5 }, nothing, async ({ recorded, write, folder }) => {
    await recorded.until(/synced ServiceCIDR/);
    await Deno.remove(folder);
    await recorded.until(/problem FOLDER no such file or folder/);
    await Deno.mkdir(folder);
    await write("a.yaml", service("a"));
    await recorded.until(/set Service default\/a/);
    await write("a.yaml", service("b"));
    await recorded.until(/set Service default\/b/);
  });
});

Deno.test("a change between a read and the start of a watch is not lost", async () => {
  const openWatch = (folder: string) => {
    Deno.writeTextFileSync(join(folder, "late.yaml"), service("late"));
    return manualWatch();
  };
  await withSource({ file: "late.yaml", openWatch }, nothing, async ({ recorded }) => {
    await recorded.until(/synced ServiceCIDR/);
    assert.deepEqual([...recorded.objects.keys()], ["Service default/late"]);
  });
});

Deno.test("a file in a watch event is read even if it looks unchanged, but not after mere reads", async () => {
  const watch = manualWatch();
  const reads: string[] = [];
  let clusterIP = "10.0.0.1";
  const readText = (path: string) => {
    reads.push(basename(path));
    return Promise.resolve(service(basename(path, ".yaml"), clusterIP));
  };
  await withSource({ openWatch: () => watch, readText }, async (write) => {
    await write("a.yaml", "");
    await write("b.yaml", "");
  }, async ({ recorded, folder }) => {
    await recorded.until(/synced ServiceCIDR/);
    clusterIP = "10.0.0.2";
    watch.emit({ kind: "access", paths: [join(folder, "a.yaml")] });
    watch.emit({ kind: "modify", paths: [join(folder, "b.yaml")] });
    assert.deepEqual(await recorded.until(/set/), ["set Service default/b"]);
    assert.deepEqual(reads, ["a.yaml", "b.yaml", "b.yaml"]);
  });
});

Deno.test("an unreadable file is retried, and its objects stay", async () => {
  let refused = false;
  const readText = (path: string) =>
    refused ? Promise.reject(new Deno.errors.PermissionDenied("not yours")) : Deno.readTextFile(path);
  await withSource({ readText, pollMs: 5 }, (write) => write("a.yaml", service("a")), async ({ recorded, write }) => {
    await recorded.until(/synced ServiceCIDR/);
    refused = true;
    await write("a.yaml", service("b"));
    assert.deepEqual(await recorded.until(/problem/), ["problem a.yaml cannot be read: not yours"]);
    assert.deepEqual([...recorded.objects.keys()], ["Service default/a"]);
    refused = false;
    assert.deepEqual(await recorded.until(/set/), ["delete Service default/a", "set Service default/b"]);
  });
});

Deno.test("a file that a folder replaces is a problem, and its objects stay", async () => {
  await withSource({ pollMs: 5 }, (write) => write("a.yaml", service("a")), async ({ recorded, folder }) => {
    await recorded.until(/synced ServiceCIDR/);
    await Deno.mkdir(join(folder, "folder"));
    await Deno.symlink("folder", join(folder, "link"));
    await Deno.rename(join(folder, "link"), join(folder, "a.yaml"));
    assert.match((await recorded.until(/problem/)).join(), /problem a.yaml cannot be read: .*directory/);
    assert.deepEqual([...recorded.objects.keys()], ["Service default/a"]);
  });
});

Deno.test("a folder with the name of a manifest is ignored", async () => {
  await withSource({ pollMs: 5 }, (write) => write("a.yaml", service("a")), async ({ write, recorded, folder }) => {
    await recorded.until(/synced ServiceCIDR/);
    await Deno.mkdir(join(folder, "archive.yaml"));
    await write("b.yaml", service("b"));
    assert.doesNotMatch((await recorded.until(/set Service default\/b/)).join(), /problem/);
  });
});

Deno.test("the source ends with its signal in every state", async () => {
  for (const file of [undefined, "missing.yaml"]) {
    await withSource({ file }, nothing, async ({ recorded }) => {
      await recorded.until(/synced Node|problem/);
    });
  }
});
