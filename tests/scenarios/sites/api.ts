/**
 * The API server of the lab of sites, in a process of its own: a cluster of services, and changes on command.
 *
 *   api.ts ADDRESS SERVICES NODES CERTIFICATE KEY
 *
 * Reads commands as lines: `change COUNT` replaces an endpoint in each of the next COUNT slices, `lease` prints the leader and when it
 * last wrote the Lease, in milliseconds since 1970.
 */
import { serviceText, sliceText } from "../../bench/api_text.ts";
import { type ApiObject, startFakeApiServer } from "../../fakes/api_server.ts";
import { systemClock } from "../../../platform/clock.ts";
import { answerLines } from "../../scale/lines.ts";

const [hostname = "", services = "", nodes = "", cert = "", key = ""] = Deno.args;
/** As kube-apiserver does. */
const COMPRESS_FROM = 128 * 1024;
const BOOKMARK_MS = 60_000;

const server = startFakeApiServer({
  hostname,
  port: 6443,
  compressFrom: COMPRESS_FROM,
  tls: { cert: Deno.readTextFileSync(cert), key: Deno.readTextFileSync(key) },
});
const count = Number(services);
server.leases.install("lab", Array.from({ length: Number(nodes) }, (_, index) => `node-${index}`));
const slice = (index: number, round: number) =>
  ({ ...JSON.parse(sliceText(index, round)), kind: "EndpointSlice" }) as ApiObject;
let changed = 0;
let writtenMs = 0;

server.apply(
  ...Array.from({ length: count }, (_, index) => JSON.parse(serviceText(index)) as ApiObject),
  ...Array.from({ length: count }, (_, index) => slice(index, 0)),
  ...Array.from({ length: Number(nodes) }, (_, index) => ({
    kind: "Node" as const,
    metadata: { name: `node-${index}`, labels: { "kubernetes.io/hostname": `node-${index}` } },
    status: { addresses: [{ type: "InternalIP", address: `10.20.0.${index + 1}` }] },
  })),
);
server.fault(({ verb, path }) => {
  if (verb === "create" || verb === "patch") writtenMs = path.includes("/leases") ? systemClock.now() : writtenMs;
  return undefined;
});
const bookmark = () => {
  server.bookmark();
  systemClock.schedule(BOOKMARK_MS, bookmark);
};
bookmark();

await answerLines((line) => {
  const [command, argument] = line.split(" ");
  if (command === "change") {
    for (let left = Number(argument); left > 0; left--, changed++) {
      server.apply(slice(changed % count, 1 + changed));
    }
  }
  const holder = server.leases.get("sluice-site-lab")?.spec.holderIdentity;
  const requests: Record<string, number> = {};
  for (const { verb, path } of server.requests) {
    const name = `${verb} ${/(leases|events|nodes|services|endpointslices)/.exec(path)?.[0] ?? path}`;
    requests[name] = (requests[name] ?? 0) + 1;
  }
  return { holder, writtenMs, changed, requests };
});
