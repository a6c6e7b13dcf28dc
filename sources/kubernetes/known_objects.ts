import { joinFlat } from "../../platform/mod.ts";
import type { Decode, Kind, SourceSink } from "../../core/objects/mod.ts";

/** What a sink has been told of one kind: of each object no more than its key and version. */
export interface KnownObjects {
  /** The object exists and looks like this; told to the sink unless this very version was told before. */
  set(raw: unknown): void;
  /** The object is gone. */
  delete(raw: unknown): void;
  /** The versions known so far mean nothing any more: each object is told of again when it is set next. */
  doubt(): void;
  /** Starts a list: the returned function ends it, and deletes what was known but not set since. */
  startList(): () => void;
}

/** The `metadata` of an API object, as far as it tells objects and versions apart. */
export interface ObjectMeta {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
}

/** The metadata of an API object; empty strings where it has none. */
export function metaOf(raw: unknown): ObjectMeta {
  const metadata = member(raw, "metadata");
  const text = (name: string) => {
    const value = member(metadata, name);
    return typeof value === "string" ? value : "";
  };
  return { namespace: text("namespace"), name: text("name"), resourceVersion: text("resourceVersion") };
}

/** Keeps `sink` told of the objects of `kind`, each version once. */
export function createKnownObjects(kind: Kind, decode: Decode, sink: SourceSink): KnownObjects {
  const versions = new Map<string, string>();
  let listed: Set<string> | undefined;

  const forget = (key: string) => {
    if (!versions.delete(key)) return;
    const slash = key.indexOf("/");
    sink.delete({ kind, namespace: key.slice(0, slash), name: key.slice(slash + 1) });
  };

  return {
    set(raw) {
      const meta = metaOf(raw);
      const key = keyOf(meta);
      listed?.add(key);
      // Versions are compared for equality alone: after a restore from a backup they start again from an older one.
      if (meta.resourceVersion !== "" && versions.get(key) === meta.resourceVersion) return;
      const { object, problems } = decode(kind, raw);
      for (const problem of problems) sink.problem(nameOf(kind, meta), problem);
      if (object === undefined) return forget(key);
      versions.set(key, meta.resourceVersion);
      sink.set(object);
    },
    delete(raw) {
      forget(keyOf(metaOf(raw)));
    },
    doubt() {
      for (const key of versions.keys()) versions.set(key, "");
    },
    startList() {
      const current = listed = new Set();
      return () => {
        for (const key of versions.keys()) if (!current.has(key)) forget(key);
        listed = undefined;
      };
    },
  };
}

function keyOf(meta: ObjectMeta): string {
  return joinFlat("/", meta.namespace, meta.name);
}

function nameOf(kind: Kind, meta: ObjectMeta): string {
  return meta.namespace ? `${kind} ${meta.namespace}/${meta.name}` : `${kind} ${meta.name}`;
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
