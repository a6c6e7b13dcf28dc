/** The part of the Kubernetes API that a service proxy uses, over HTTP on 127.0.0.1, with injectable faults. */
import type { Kind } from "../../core/objects/cluster_object.ts";
import { createLeaseApi, type LeaseApi } from "./lease_api.ts";
import { statusResponse } from "./status_response.ts";

export { statusResponse };

/** An object of the API; the server sets the resourceVersion. */
export interface ApiObject {
  readonly kind: Kind;
  readonly metadata: {
    readonly namespace?: string;
    readonly name: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly resourceVersion?: string;
  };
  readonly [field: string]: unknown;
}

/** A received request. */
export interface SeenRequest {
  readonly verb: "get" | "list" | "watch" | "create" | "patch";
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Headers;
  readonly body: string;
}

/** Answers instead of the server, or returns undefined, at once or later, to let it answer. */
export type Fault = (request: SeenRequest) => Response | undefined | Promise<Response | undefined>;

/** The server and its controls. */
export interface FakeApiServer {
  readonly url: string;
  readonly leases: LeaseApi;
  /** Every request so far, the oldest first. */
  readonly requests: readonly SeenRequest[];
  /** The resourceVersion of the last change. */
  revision(): number;
  /** Creates or replaces objects. */
  apply(...objects: readonly ApiObject[]): void;
  /** Deletes objects by kind, namespace and name. */
  remove(...objects: readonly ApiObject[]): void;
  /** Sends a bookmark on every open watch. */
  bookmark(): void;
  /** Sends bytes on every open watch of a kind. */
  send(kind: Kind, text: string): void;
  /** Silences the open watches without closing them. */
  deafen(): void;
  /** Ends every open watch, cleanly or by breaking the connection. */
  dropWatches(how?: "orderly" | "broken"): void;
  /** Drops all events and the state of continue tokens: both get a 410 from now on. */
  expire(): void;
  /** Drops the events until now: resuming from before them gets a 410. Open watches continue. */
  forgetEvents(): void;
  /** Starts over with resourceVersions after `revision` and no objects, as after a restore from a backup. */
  restore(revision: number): void;
  /** Called before every request until it is replaced or removed. */
  fault(fault: Fault | undefined): void;
  /** An answer that never comes. */
  silence(): Promise<Response>;
  /** Resolves when `count` watches are open at the same time. */
  watches(count: number): Promise<void>;
  close(): Promise<void>;
}

/** Options of the server. */
export interface FakeApiServerOptions {
  /** Certificate and key (PEM), for HTTPS. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** 127.0.0.1 by default. */
  readonly hostname?: string;
  /** A free one by default. */
  readonly port?: number;
  /** The size in bytes from which lists are compressed; kube-apiserver compresses from 128 kB. Never by default. */
  readonly compressFrom?: number;
  /** Whether a watch from a future resourceVersion gets nothing until then, as in kube-apiserver. */
  readonly silentAhead?: boolean;
}

interface Watch {
  readonly kind: Kind;
  readonly wanted: (object: ApiObject) => boolean;
  readonly since: number;
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
}

interface PastEvent {
  readonly revision: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: ApiObject;
}

const PATHS: Readonly<Record<string, Kind>> = {
  "/api/v1/services": "Service",
  "/apis/discovery.k8s.io/v1/endpointslices": "EndpointSlice",
  "/api/v1/nodes": "Node",
  "/apis/networking.k8s.io/v1/servicecidrs": "ServiceCIDR",
};

const NODE_PATH = /^\/api\/v1\/nodes\/([^/]+)$/;
const LEASES_PATH = "/apis/coordination.k8s.io/";

const VERBS: Readonly<Record<string, "create" | "patch">> = { POST: "create", PATCH: "patch" };

/** Starts a server. */
export function startFakeApiServer(options: FakeApiServerOptions = {}): FakeApiServer {
  const { hostname = "127.0.0.1" } = options;
  const encoder = new TextEncoder();
  const requests: SeenRequest[] = [];
  const objects = new Map<string, ApiObject>();
  const watches = new Set<Watch>();
  const deaf = new Set<Watch>();
  const waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  const silent: ((response: Response) => void)[] = [];
  const leases = createLeaseApi();
  let events: PastEvent[] = [];
  let revision = 1;
  let oldest = 0;
  let fault: Fault | undefined;
  let isClosing = false;

  const line = (type: string, object: unknown) => encoder.encode(JSON.stringify({ type, object }) + "\n");
  const keyOf = (object: ApiObject) => `${object.kind}/${object.metadata.namespace ?? ""}/${object.metadata.name}`;

  const reaches = ({ since }: Watch) => !options.silentAhead || revision > since;

  const happened = (type: PastEvent["type"], object: ApiObject) => {
    events.push({ revision, type, object });
    for (const watch of watches) {
      if (watch.kind === object.kind && watch.wanted(object) && reaches(watch)) {
        watch.controller.enqueue(line(type, object));
      }
    }
  };

  const list = (kind: Kind, query: Readonly<Record<string, string>>): Response => {
    const found = [...objects.values()].filter((object) => object.kind === kind && selected(query)(object));
    const [asOf, start] = query.continue ? query.continue.split("-").map(Number) : [revision, 0];
    if (asOf! < oldest) return statusResponse(410, "Expired", "The provided continue parameter is too old");
    // With resourceVersion 0 the limit is ignored, as by the real server's watch cache.
    const limit = query.resourceVersion === "0" ? found.length : Number(query.limit ?? found.length);
    const rest = found.length - start! - limit;
    return Response.json({
      kind: `${kind}List`,
      apiVersion: "v1",
      metadata: { resourceVersion: String(asOf), ...(rest > 0 ? { continue: `${asOf}-${start! + limit}` } : {}) },
      items: found.slice(start, start! + limit),
    });
  };

  const watch = (kind: Kind, query: Readonly<Record<string, string>>): Response => {
    const since = Number(query.resourceVersion);
    if (since < oldest) return statusResponse(410, "Expired", `too old resource version: ${since} (${oldest})`);
    const wanted = selected(query);
    let opened: Watch;
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        opened = { kind, wanted, since, controller };
        for (const event of events) {
          if (event.revision > since && event.object.kind === kind && wanted(event.object)) {
            controller.enqueue(line(event.type, event.object));
          }
        }
        watches.add(opened);
        for (const waiter of [...waiting]) if (watches.size >= waiter.count) waiter.resolve();
      },
      cancel() {
        watches.delete(opened);
        deaf.delete(opened);
      },
    });
    return new Response(body, { headers: { "content-type": "application/json" } });
  };

  const endWatches = (end: (watch: Watch) => void) => {
    for (const watch of watches) end(watch);
    watches.clear();
  };

  const server = Deno.serve(
    {
      hostname,
      port: options.port ?? 0,
      onListen: () => {},
      onError: () => new Response(null, { status: 500 }),
      ...options.tls,
    },
    async (request) => {
      const url = new URL(request.url);
      const query = Object.fromEntries(url.searchParams);
      const node = NODE_PATH.exec(url.pathname)?.[1];
      const isOfSite = url.pathname.startsWith(LEASES_PATH) || url.pathname.includes("/configmaps/");
      const read = query.watch === "true" ? "watch" : node !== undefined || isOfSite ? "get" : "list";
      const verb = VERBS[request.method] ?? read;
      const seen = { verb, path: url.pathname, query, headers: request.headers, body: await request.text() } as const;
      requests.push(seen);
      // A watch that began now would never end, and close() would wait for it.
      if (isClosing) return statusResponse(503, "ServiceUnavailable", "the server is closing");
      const faulty = fault && await fault(seen);
      if (faulty) return faulty;
      const ofLease = leases.answer({ method: request.method, ...seen }, () => ++revision);
      if (ofLease !== undefined) return ofLease;
      if (verb === "get") {
        const found = objects.get(`Node//${node}`);
        return found === undefined ? statusResponse(404, "NotFound", "not found") : Response.json(found);
      }
      if (verb === "create") return new Response(seen.body, { status: 201 });
      if (verb === "patch") return new Response(seen.body);
      const kind = PATHS[url.pathname];
      if (kind === undefined) {
        return statusResponse(404, "NotFound", "the server could not find the requested resource");
      }
      if (verb === "watch") return watch(kind, query);
      return await compressed(list(kind, query), request.headers, options.compressFrom ?? Infinity);
    },
  );
  const { port } = server.addr as Deno.NetAddr;

  return {
    url: `${options.tls ? "https" : "http"}://${hostname}:${port}`,
    requests,
    leases,
    revision: () => revision,
    apply(...given) {
      for (const object of given) {
        revision++;
        const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
        const type = objects.has(keyOf(object)) ? "MODIFIED" : "ADDED";
        objects.set(keyOf(object), stored);
        happened(type, stored);
      }
    },
    remove(...given) {
      for (const object of given) {
        objects.delete(keyOf(object));
        revision++;
        happened("DELETED", { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } });
      }
    },
    bookmark() {
      for (const watch of watches) {
        const { controller, kind } = watch;
        if (options.silentAhead && revision < watch.since) continue;
        controller.enqueue(line("BOOKMARK", { kind, metadata: { resourceVersion: String(revision) } }));
      }
    },
    send(kind, text) {
      for (const watch of watches) if (watch.kind === kind) watch.controller.enqueue(encoder.encode(text));
    },
    deafen() {
      for (const watch of watches) deaf.add(watch);
      watches.clear();
    },
    dropWatches(how = "orderly") {
      endWatches(({ controller }) => how === "orderly" ? controller.close() : controller.error(new Error("dropped")));
    },
    expire() {
      revision++;
      oldest = revision;
      events = [];
    },
    forgetEvents() {
      oldest = revision;
      events = [];
    },
    restore(to) {
      revision = to;
      oldest = 0;
      events = [];
      objects.clear();
    },
    fault(next) {
      fault = next;
    },
    silence: () => new Promise((resolve) => silent.push(resolve)),
    watches(count) {
      return new Promise((resolve) => watches.size >= count ? resolve() : waiting.push({ count, resolve }));
    },
    async close() {
      isClosing = true;
      for (const resolve of silent) resolve(new Response(null, { status: 503 }));
      for (const { controller } of [...watches, ...deaf]) controller.close();
      await server.shutdown();
    },
  };
}

/** Compresses a list of at least `from` bytes, if the client accepts it. */
async function compressed(response: Response, headers: Headers, from: number): Promise<Response> {
  if (from === Infinity || !/gzip/.test(headers.get("accept-encoding") ?? "")) return response;
  const body = await response.arrayBuffer();
  if (body.byteLength < from) return new Response(body, response);
  const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Response(stream, { headers: { "content-type": "application/json", "content-encoding": "gzip" } });
}

function selected(query: Readonly<Record<string, string>>): (object: ApiObject) => boolean {
  const terms = (query.labelSelector ?? "").split(",").filter((term) => term !== "");
  const isLabelled = (labels: Readonly<Record<string, string>> = {}) =>
    terms.every((term) => {
      const [label = "", value] = term.replace(/^!/, "").split("=");
      if (!term.startsWith("!") && value === undefined) return labels[label] !== undefined;
      return labels[label] === (term.startsWith("!") ? undefined : value);
    });
  const withoutHeadless = query.fieldSelector === "spec.clusterIP!=None";
  const fields = new Map((query.fieldSelector ?? "").split(",").map((term) => term.split("=") as [string, string]));
  const name = fields.get("metadata.name"), namespace = fields.get("metadata.namespace");
  return ({ metadata, spec }) =>
    isLabelled(metadata.labels) && (name === undefined || metadata.name === name) &&
    (namespace === undefined || metadata.namespace === namespace) &&
    !(withoutHeadless && (spec as { readonly clusterIP?: string } | undefined)?.clusterIP === "None");
}
