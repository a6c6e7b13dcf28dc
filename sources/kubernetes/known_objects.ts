import { joinFlat } from "../../platform/mod.ts";
import { type Decode, type Kind, refText, type SourceSink } from "../../core/objects/mod.ts";
import { createObjectProblems } from "../../core/problems/mod.ts";

/** The objects of one kind reported to a sink; keeps only their keys and versions. */
export interface KnownObjects {
  /** The object was added or changed; reported unless this version was already. */
  set(raw: unknown): void;
  delete(raw: unknown): void;
  /** Forgets the versions: each object is reported again when it is next set. */
  invalidate(): void;
  /** Starts a list; the returned function ends it and deletes the objects not set since. */
  startList(): () => void;
}

/** The identity and version in the `metadata` of an API object. */
interface ObjectMeta {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
}

/** Reads the metadata of an API object; missing fields are empty. */
export function metaOf(raw: unknown): ObjectMeta {
  const metadata = member(raw, "metadata");
  const text = (name: string) => {
    const value = member(metadata, name);
    return typeof value === "string" ? value : "";
  };
  return { namespace: text("namespace"), name: text("name"), resourceVersion: text("resourceVersion") };
}

/** Reports the objects of `kind` to `sink`, each version once. */
export function createKnownObjects(kind: Kind, decode: Decode, sink: SourceSink): KnownObjects {
  const versions = new Map<string, Version>();
  const problemsOf = createObjectProblems(sink.problems, kind);
  let listed: Set<string> | undefined;

  const forget = (key: string) => {
    if (!versions.delete(key)) return;
    const slash = key.indexOf("/");
    sink.delete({ kind, namespace: key.slice(0, slash), name: key.slice(slash + 1) });
  };

  return {
    set(raw) {
      const meta = metaOf(raw);
      const key = keyOf(meta), version = compactVersion(meta.resourceVersion);
      listed?.add(key);
      // Only equality counts: after a restore from a backup, versions start again from an older one.
      if (version !== "" && versions.get(key) === version) return problemsOf.confirm(key);
      const { object, problems } = decode(kind, raw);
      problemsOf.set(key, refText({ kind, ...meta }), problems);
      if (object === undefined) return forget(key);
      versions.set(key, version);
      sink.set(object);
    },
    delete(raw) {
      const key = keyOf(metaOf(raw));
      problemsOf.delete(key);
      forget(key);
    },
    invalidate() {
      for (const key of versions.keys()) versions.set(key, "");
    },
    startList() {
      const current = listed = new Set();
      const endProblems = problemsOf.startList();
      return () => {
        for (const key of versions.keys()) if (!current.has(key)) forget(key);
        endProblems();
        listed = undefined;
      };
    },
  };
}

/** A resourceVersion as a number where that has the same digits, which takes no memory of its own. */
type Version = string | number;

function compactVersion(resourceVersion: string): Version {
  const number = Number(resourceVersion);
  return String(number) === resourceVersion ? number : resourceVersion;
}

function keyOf(meta: ObjectMeta): string {
  return joinFlat("/", meta.namespace, meta.name);
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/** Whether a resourceVersion is older than another. Both are decimal numbers of any length (KEP-5504). */
export function isBefore(a: string, b: string): boolean {
  if (!/^[1-9]\d*$/.test(a) || !/^[1-9]\d*$/.test(b)) return false;
  return a.length === b.length ? a < b : a.length < b.length;
}
