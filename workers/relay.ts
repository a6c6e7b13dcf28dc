/** The entry of a family's relay worker: connects the relay to the messages of the main isolate. */
import type { RelaySettings } from "../core/channel/mod.ts";
import { type FamilyDelta, frontendsOf, isFrontendAt, type Protocol, servicePortKey } from "../core/model/mod.ts";
import { createLogger, joinHostPort, systemClock, writeToStderr } from "../platform/mod.ts";
import { createRelay, defaultRelayLimits, type Relay, type RelayLimits } from "../relay/mod.ts";
import type { FromRelay, RelayStart, ToRelay } from "./relay_worker.ts";
import { ownScope } from "./web_worker.ts";

const scope = ownScope<ToRelay, FromRelay>();
let running: Relay | undefined;
const frontends = createOwnFrontends();
/** The service ports without a listener after the last delta. */
let unserved: ReadonlySet<string> = new Set();

scope.onmessage = ({ data: message }) => {
  switch (message.type) {
    case "start":
      running = start(message);
      return;
    case "apply":
      return void (running && apply(running, message.delta));
    case "counts":
      return running && scope.postMessage({ ...message, counts: running.counts() });
    case "traffic":
      return running && scope.postMessage({ ...message, reading: running.takeTraffic() });
    case "stop":
      return void stop();
    case "ping":
      return scope.postMessage({ type: "pong" });
  }
};

function start({ family, placement, settings, logLevel, logFormat }: RelayStart): Relay {
  const clock = systemClock;
  const logger = createLogger({ level: logLevel, format: logFormat, clock, write: writeToStderr })
    .with({ family, worker: "relay" });
  return createRelay({
    family,
    placement,
    ports: settings.ports,
    limits: relayLimits(settings),
    mayConnect: (endpoint, protocol) => !frontends.has(endpoint, protocol),
    clock,
    logger,
  });
}

/** The limits of a relay with these settings, of which 0 stands for the default. */
export function relayLimits({ files, maxConnections, udpIdleTimeoutMs }: RelaySettings): RelayLimits {
  const limits = defaultRelayLimits(files);
  return {
    ...limits,
    connections: maxConnections || limits.connections,
    udpAnsweredIdleMs: udpIdleTimeoutMs || limits.udpAnsweredIdleMs,
    udpIdleMs: udpIdleTimeoutMs || limits.udpIdleMs,
    udpStreamIdleMs: udpIdleTimeoutMs || limits.udpStreamIdleMs,
  };
}

async function apply(relay: Relay, delta: FamilyDelta): Promise<void> {
  frontends.note(delta);
  const { ports, problems } = await relay.apply(delta);
  const keys = delta.set.map(({ name, protocol }) => servicePortKey(name, protocol));
  const now = new Set(problems.flatMap(({ servicePort }) => servicePort ?? []));
  const inDelta = new Set(delta.set.map(({ name }) => name));
  scope.postMessage({
    type: "applied",
    revision: delta.revision,
    ports: keys.map((key) => ports.get(key)),
    problems,
    recovered: [...unserved].some((name) => !now.has(name) && !inDelta.has(name)),
  });
  unserved = now;
}

async function stop(): Promise<void> {
  await running?.stop();
  scope.postMessage({ type: "stopped" });
}

/** The destinations that the rules send to a relay. A relay that connected to one of them would serve itself, endlessly. */
interface OwnFrontends {
  /** Notes a delta that is about to be applied. */
  note(delta: FamilyDelta): void;
  has(endpoint: string, protocol: Protocol): boolean;
}

/** Creates an empty set of frontends. */
export function createOwnFrontends(): OwnFrontends {
  const byPort = new Map<string, readonly string[]>();
  const all = new Set<string>();
  let nodeIP = "";
  const forget = (key: string) => {
    for (const frontend of byPort.get(key) ?? []) all.delete(frontend);
    byPort.delete(key);
  };
  return {
    note({ base, settings, set, deleted }) {
      nodeIP = settings?.nodeIP ?? nodeIP;
      if (base === undefined) { for (const key of [...byPort.keys()]) forget(key); }
      for (const key of deleted) forget(key);
      for (const { name, protocol } of set) forget(servicePortKey(name, protocol));
      for (const port of set) {
        const frontends = frontendsOf(port)
          .filter((frontend) => isFrontendAt(frontend, frontend.address || nodeIP))
          .map(({ address, protocol, port }) => `${protocol} ${joinHostPort(address || nodeIP, port)}`);
        byPort.set(servicePortKey(port.name, port.protocol), frontends);
        for (const frontend of frontends) all.add(frontend);
      }
    },
    has: (endpoint, protocol) => all.has(`${protocol} ${endpoint}`),
  };
}
