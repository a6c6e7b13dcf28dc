/** A receiver of OTLP over HTTP, which decodes what it needs of https://github.com/open-telemetry/opentelemetry-proto. */
import { bytes, message, nested, several, text, type TypeOf } from "../../kpng/codec/mod.ts";

const ATTRIBUTE = message({ key: text(1), value: nested(2, message({ text: text(1) })) });
const RESOURCE = message({ attributes: several(1, ATTRIBUTE) });
const METRIC = message({ name: text(1), unit: text(3) });
const SPAN = message({ traceId: bytes(1), spanId: bytes(2), parentSpanId: bytes(4), name: text(5) });
const METRICS = message({
  of: several(
    1,
    message({ resource: nested(1, RESOURCE), scopes: several(2, message({ items: several(2, METRIC) })) }),
  ),
});
const TRACES = message({
  of: several(1, message({ resource: nested(1, RESOURCE), scopes: several(2, message({ items: several(2, SPAN) })) })),
});

type Item = TypeOf<typeof SPAN>;

/** A request that the collector has received. */
export interface ReceivedExport {
  readonly path: string;
  /** The names of the metrics or of the spans; a span's follows that of its parents: `sync/apply`. */
  readonly names: readonly string[];
  /** The attributes of the resource that are strings. */
  readonly resource: Readonly<Record<string, string>>;
}

/** A running collector. */
export interface FakeCollector {
  /** Its endpoint, `http://127.0.0.1:PORT`. */
  readonly url: string;
  readonly received: readonly ReceivedExport[];
  /** The status of the next answers; 200 at first. */
  answer(status: number): void;
  close(): Promise<void>;
}

/** Starts a collector on a free port. */
export function startFakeCollector(): FakeCollector {
  const received: ReceivedExport[] = [];
  let status = 200;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const path = new URL(request.url).pathname;
    const body = await request.bytes();
    if (status === 200) received.push({ path, ...decoded(path, body) });
    return new Response(new Uint8Array(), { status, headers: { connection: "close" } });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    received,
    answer: (next) => void (status = next),
    close: () => server.shutdown(),
  };
}

function decoded(path: string, body: Uint8Array<ArrayBuffer>): Pick<ReceivedExport, "names" | "resource"> {
  const isOfMetrics = path.endsWith("/metrics");
  const [{ resource, scopes = [] } = {}] = (isOfMetrics ? METRICS : TRACES).decode(body).of ?? [];
  const attributes = (resource?.attributes ?? []).map(({ key, value }) => [key ?? "", value?.text ?? ""] as const);
  const items: readonly Item[] = scopes.flatMap(({ items = [] }) => items);
  const pathOf = ({ name = "", parentSpanId }: Item): string => {
    const parent = parentSpanId && items.find(({ spanId }) => spanId?.toHex() === parentSpanId.toHex());
    return parent ? `${pathOf(parent)}/${name}` : name;
  };
  return { names: items.map(pathOf), resource: Object.fromEntries(attributes) };
}
