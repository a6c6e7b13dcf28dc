import { joinBytes } from "../../platform/mod.ts";
import { errorOfBrokenJson, errorOfGarbage, errorOfStatus, type RequestSubject, statusOf } from "./api_error.ts";
import type { ApiClient } from "./http.ts";
import { createObjectLimit } from "./object_limit.ts";
import { acceptedTypes, type Resource } from "./resource.ts";

interface ListOptions {
  readonly resource: Resource;
  readonly api: ApiClient;
  /**
   * The number of objects per page. By default client-go's if the server must read from its storage, and everything at once if
   * the state may be old: served from memory, a page costs the server as much as the entire list.
   */
  readonly pageSize: number | undefined;
  /** The maximum silence of the answer, in milliseconds. */
  readonly readDeadlineMs: number;
  /** Whether a state from the server's memory, perhaps a bit old, is enough. It costs the cluster least. */
  readonly mayBeOld: boolean;
}

/** client-go's page size. */
const PAGE_SIZE = 500;

/**
 * Lists a resource page by page and emits each object as it is read. Returns the resourceVersion to watch from. Throws an
 * ApiError, of kind `expired` if the server dropped the state that the pages are from.
 */
export async function listResource(
  options: ListOptions,
  onItem: (item: unknown) => void,
  signal: AbortSignal,
): Promise<string> {
  const { resource, api, pageSize, readDeadlineMs, mayBeOld } = options;
  const limit = pageSize ?? (mayBeOld ? undefined : PAGE_SIZE);
  const subject: RequestSubject = { verb: "list", resource: resource.name, since: resource.since, server: api.server };
  for (let continueAt = "";;) {
    const query = new URLSearchParams(resource.selectors);
    if (limit !== undefined) query.set("limit", String(limit));
    if (continueAt) query.set("continue", continueAt);
    else if (mayBeOld) query.set("resourceVersion", "0");
    const scanner = createItemScanner(onItem);
    const request = {
      ...subject,
      path: `${resource.path}?${query}`,
      readDeadlineMs,
      accept: acceptedTypes(resource, "list"),
    };
    let envelope: ListEnvelope;
    try {
      await api.send(request, (chunk) => scanner.push(chunk), signal);
      envelope = scanner.end();
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw errorOfBrokenJson(subject, error);
    }
    const status = statusOf(envelope);
    if (status) throw errorOfStatus(subject, status.code, status);
    const { resourceVersion, next } = positionOf(subject, envelope);
    if (!next) return resourceVersion;
    continueAt = next;
  }
}

function positionOf(subject: RequestSubject, envelope: ListEnvelope) {
  const metadata = envelope.metadata as { readonly resourceVersion?: unknown; readonly continue?: unknown } | undefined;
  const resourceVersion = metadata?.resourceVersion;
  if (typeof resourceVersion !== "string" || resourceVersion === "") {
    throw errorOfGarbage(subject, "JSON", JSON.stringify(envelope));
  }
  return { resourceVersion, next: typeof metadata?.continue === "string" ? metadata.continue : "" };
}

/** The members of a list response other than its items, parsed. */
type ListEnvelope = Readonly<Record<string, unknown>>;

/** Parses one list response incrementally and emits its items one by one. */
interface ItemScanner {
  /**
   * Parses the next bytes; emits every item that ends in them before it returns. Throws a SyntaxError, also for an item that is
   * too large.
   */
  push(chunk: Uint8Array): void;
  /** Ends the response and returns its other members. Throws a SyntaxError if it is incomplete. */
  end(): ListEnvelope;
}

const QUOTE = 0x22, COMMA = 0x2c, COLON = 0x3a, BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b, CLOSE_BRACKET = 0x5d, OPEN_BRACE = 0x7b, CLOSE_BRACE = 0x7d;

/** The next expected token, or the value being read. */
const enum Expect {
  Start,
  KeyOrEnd,
  Colon,
  Value,
  CommaOrEnd,
  ItemOrEnd,
  ItemCommaOrEnd,
  End,
  RestOfKey,
  RestOfMember,
  RestOfItem,
}

/**
 * A scanner for a JSON object with an array `items`. It finds the bounds of each item in the bytes and parses the item alone,
 * so that memory holds one item at a time regardless of the list's length. `end` returns the other members: a list's
 * `metadata`, before or after the items, or an entire Status.
 */
export function createItemScanner(onItem: (item: unknown) => void): ItemScanner {
  const decoder = new TextDecoder();
  const envelope: Record<string, unknown> = {};
  const bounds = createValueBounds();
  const limit = createObjectLimit();
  let expect = Expect.Start;
  let key = "";
  let scanned = 0;
  // The part in earlier chunks of the value being read.
  const carried: Uint8Array[] = [];

  const finishValue = (bytes: Uint8Array) => {
    const value: unknown = JSON.parse(decoder.decode(bytes));
    if (expect === Expect.RestOfKey) {
      key = String(value);
      expect = Expect.Colon;
    } else if (expect === Expect.RestOfMember) {
      // defineProperty, because a member may have any name, including `__proto__`.
      Object.defineProperty(envelope, key, { value, enumerable: true, configurable: true, writable: true });
      expect = Expect.CommaOrEnd;
    } else {
      expect = Expect.ItemCommaOrEnd;
      onItem(value);
    }
  };

  /** Consumes one byte between values; returns whether a value starts with it. */
  const startsValue = (byte: number, offset: number): boolean => {
    const next = afterByte(expect, byte, key);
    if (next === undefined) {
      const character = JSON.stringify(String.fromCharCode(byte));
      throw new SyntaxError(`unexpected ${character} at byte ${scanned + offset} of the response`);
    }
    expect = next;
    return isValue(next);
  };

  return {
    push(chunk) {
      let at = 0;
      let valueFrom = 0;
      let countedTo = 0;
      while (at < chunk.length) {
        if (!isValue(expect)) {
          const byte = chunk[at]!;
          if (isSpace(byte) || !startsValue(byte, at)) {
            at++;
            continue;
          }
          bounds.start(byte);
          valueFrom = at;
        }
        const end = bounds.end(chunk, at);
        if (end === -1) {
          carried.push(chunk.slice(valueFrom));
          break;
        }
        const part = chunk.subarray(valueFrom, end);
        const whole = carried.length === 0 ? part : joinBytes([...carried.splice(0), part]);
        finishValue(whole);
        at = end;
        if (expect !== Expect.ItemCommaOrEnd) continue;
        limit.ended();
        countedTo = end;
      }
      limit.add(chunk.length - countedTo);
      scanned += chunk.length;
    },
    end() {
      if (expect !== Expect.End) throw new SyntaxError(`the response breaks off after ${scanned} bytes`);
      return envelope;
    },
  };
}

const enum Inside {
  Nesting,
  Scalar,
  String,
  Escape,
}

function createValueBounds() {
  let depth = 0;
  let inside = Inside.Nesting;

  return {
    /** Starts with a value's first byte, which `end` reads again. */
    start(byte: number) {
      depth = 0;
      const isScalar = byte !== QUOTE && byte !== OPEN_BRACE && byte !== OPEN_BRACKET;
      inside = isScalar ? Inside.Scalar : Inside.Nesting;
    },
    /** Continues a value; returns the offset after its last byte, or -1 if this chunk does not contain it. */
    end(bytes: Uint8Array, from: number): number {
      const length = bytes.length;
      for (let i = from; i < length; i++) {
        const byte = bytes[i]!;
        if (inside === Inside.String) {
          if (byte === BACKSLASH) inside = Inside.Escape;
          else if (byte === QUOTE) {
            inside = Inside.Nesting;
            if (depth === 0) return i + 1;
          }
        } else if (inside === Inside.Nesting) {
          if (byte === QUOTE) inside = Inside.String;
          else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++;
          else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) return i + 1;
        } else if (inside === Inside.Escape) inside = Inside.String;
        else if (isSpace(byte) || byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET) return i;
      }
      return -1;
    },
  };
}

/** Returns the expectation after a byte between values, with the last key; undefined for an unexpected byte. */
function afterByte(expect: Expect, byte: number, key: string): Expect | undefined {
  switch (expect) {
    case Expect.Start:
      return byte === OPEN_BRACE ? Expect.KeyOrEnd : undefined;
    case Expect.KeyOrEnd:
      if (byte === CLOSE_BRACE) return Expect.End;
      return byte === QUOTE ? Expect.RestOfKey : undefined;
    case Expect.Colon:
      return byte === COLON ? Expect.Value : undefined;
    case Expect.Value:
      return key === "items" && byte === OPEN_BRACKET ? Expect.ItemOrEnd : Expect.RestOfMember;
    case Expect.CommaOrEnd:
      if (byte === COMMA) return Expect.KeyOrEnd;
      return byte === CLOSE_BRACE ? Expect.End : undefined;
    case Expect.ItemOrEnd:
      return byte === CLOSE_BRACKET ? Expect.CommaOrEnd : Expect.RestOfItem;
    case Expect.ItemCommaOrEnd:
      if (byte === COMMA) return Expect.ItemOrEnd;
      return byte === CLOSE_BRACKET ? Expect.CommaOrEnd : undefined;
    default:
      return undefined;
  }
}

function isValue(expect: Expect): boolean {
  return expect >= Expect.RestOfKey;
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}
