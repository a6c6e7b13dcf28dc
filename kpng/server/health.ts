import { HEALTH, HEALTH_REQUEST, HEALTH_RESPONSE } from "../messages/mod.ts";
import type { Revisions } from "./state.ts";
import { framesOf, STATUS, StatusError } from "../transport/mod.ts";
import type { Call } from "./call.ts";
import type { RequestStream } from "./stream.ts";
import { waitAmong } from "./waiting.ts";

/** The services whose health can be asked for; the empty name is the whole server. */
const SERVICES: ReadonlySet<string> = new Set(["", "localv1.Sets", "globalv1.Sets"]);

/** Health checks of a server (gRPC: health-checking.md). */
export interface Health {
  /** By the paths of the methods. */
  readonly methods: ReadonlyMap<string, (call: Call) => Promise<void>>;
  /** Reports NOT_SERVING from now on. */
  stop(): void;
}

/** Health checks that report SERVING once the store is complete, until they are stopped. */
export function createHealth(store: Pick<Revisions, "ready" | "subscribe">): Health {
  const waiting = new Set<() => void>();
  let hasStopped = false;
  const current = () => store.ready() && !hasStopped ? HEALTH.SERVING : HEALTH.NOT_SERVING;
  const changed = () => {
    for (const wake of [...waiting]) wake();
  };
  const unsubscribe = store.subscribe(() => {
    unsubscribe();
    changed();
  });

  const check = async (call: Call) => {
    const requests = call.open(HEALTH_REQUEST.decode);
    const service = await serviceOf(requests);
    if (!SERVICES.has(service)) throw new StatusError(STATUS.notFound, `the service ${service} is unknown`);
    await requests.write(reportOf(current()));
  };

  const watch = async (call: Call) => {
    const requests = call.open(HEALTH_REQUEST.decode);
    const isKnown = SERVICES.has(await serviceOf(requests));
    let reported: number | undefined;
    for (;;) {
      const status = isKnown ? current() : HEALTH.SERVICE_UNKNOWN;
      if (status !== reported) await requests.write(reportOf(status));
      reported = status;
      // Nothing has changed while the report was written, or the loop reports it now.
      if (!isKnown || status === current()) await waitAmong(waiting, call.signal);
    }
  };

  return {
    methods: new Map([["/grpc.health.v1.Health/Check", check], ["/grpc.health.v1.Health/Watch", watch]]),
    stop() {
      unsubscribe();
      hasStopped = true;
      changed();
    },
  };
}

async function serviceOf(requests: RequestStream<{ readonly service?: string }>): Promise<string> {
  const request = await requests.next();
  if (request === undefined) throw new StatusError(STATUS.invalidArgument, "no request received");
  return request.service ?? "";
}

function reportOf(status: number): Uint8Array<ArrayBuffer> {
  return framesOf([HEALTH_RESPONSE.encode({ status })]);
}
