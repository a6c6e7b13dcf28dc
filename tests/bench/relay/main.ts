/**
 * Measures the relay of userspace mode against direct connections on the loopback interface: `deno task bench:relay`, or
 * with the number of open connections to hold (`deno task bench:relay 9900`, the default: twice as many files must fit
 * into `ulimit -n`). Needs Linux. For figures without other traffic:
 *
 *     unshare -n sh -c 'ip link set lo up; deno task bench:relay'
 */
const V8_FLAGS = "--v8-flags=--optimize-for-size,--max-semi-space-size=1,--initial-heap-size=32";
const BULK_BYTES = 4e9;
const ROUND_TRIPS = 20_000;
const CONNECTS = 3000;
const FLOWS = 5000;

interface Process {
  readonly pid: number;
  readonly tcp: Deno.ConnectOptions;
  readonly udp: Deno.NetAddr;
  kill(): void;
}

async function start(script: string, ...args: string[]): Promise<Process> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", "--no-check", V8_FLAGS, new URL(script, import.meta.url).pathname, ...args],
    stdout: "piped",
  }).spawn();
  const { value } = await child.stdout.pipeThrough(new TextDecoderStream()).getReader().read();
  const { tcp, udp } = JSON.parse(value!);
  const hostname = "127.0.0.1";
  return {
    pid: child.pid,
    tcp: { hostname, port: tcp },
    udp: { transport: "udp", hostname, port: udp },
    kill: () => child.kill(),
  };
}

/** The CPU time of a process, in seconds. */
function cpuSeconds({ pid }: Process): number {
  const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).replace(/^.*\) /, "").split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Resident and anonymous memory of a process, in MB. */
function memory({ pid }: Process): { readonly resident: number; readonly anonymous: number } {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  const read = (name: string) => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)![1]) / 1024;
  return { resident: read("VmRSS"), anonymous: read("RssAnon") };
}

function memoryText(process: Process): string {
  const { resident, anonymous } = memory(process);
  return `${resident.toFixed(0)} MB resident, ${anonymous.toFixed(0)} anonymous`;
}

function quantile(values: Float64Array, share: number): string {
  return values.toSorted()[Math.floor(values.length * share)]!.toFixed(0);
}

async function connect(to: Deno.ConnectOptions): Promise<Deno.TcpConn> {
  const connection = await Deno.connect(to);
  connection.setNoDelay();
  return connection;
}

async function bulk(to: Deno.ConnectOptions, relay?: Process): Promise<void> {
  const connection = await connect(to);
  await connection.write(new TextEncoder().encode("s"));
  const chunk = new Uint8Array(1 << 20);
  const before = { ms: performance.now(), cpu: relay ? cpuSeconds(relay) : 0 };
  let left = BULK_BYTES;
  while (left > 0) left -= await connection.write(chunk);
  await connection.closeWrite();
  await connection.read(new Uint8Array(1));
  connection.close();
  const gigabits = BULK_BYTES * 8 / 1e9;
  const wall = gigabits / (performance.now() - before.ms) * 1000;
  const perCore = relay ? `, ${(gigabits / (cpuSeconds(relay) - before.cpu)).toFixed(1)} per core of the relay` : "";
  console.log(`  one transfer of 4 GB: ${wall.toFixed(1)} Gbit/s${perCore}`);
}

async function pingPong(name: string, ask: () => Promise<unknown>, times = ROUND_TRIPS): Promise<void> {
  const took = new Float64Array(times);
  for (let i = -times / 10; i < times; i++) {
    const startMs = performance.now();
    await ask();
    if (i >= 0) took[i] = (performance.now() - startMs) * 1000;
  }
  console.log(`  ${name}: ${quantile(took, 0.5)} µs median, ${quantile(took, 0.99)} µs at 99 %`);
}

/** Latency of TCP round trips, of new connections and of datagrams. */
async function latencies({ tcp, udp }: Process): Promise<void> {
  const data = new TextEncoder().encode("e".repeat(64));
  const buffer = new Uint8Array(65_536);
  const askOn = async (connection: Deno.TcpConn) => {
    await connection.write(data);
    await connection.read(buffer);
  };
  const connection = await connect(tcp);
  await pingPong("64 bytes and back", () => askOn(connection));
  connection.close();
  const connectAndAsk = async () => {
    const one = await connect(tcp);
    await askOn(one);
    one.close();
  };
  await pingPong("connect, 64 bytes and back", connectAndAsk, CONNECTS);
  const socket = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
  const askDatagram = async () => {
    await socket.send(data, udp);
    await socket.receive(buffer);
  };
  await pingPong("a datagram and back", askDatagram);
  socket.close();
}

/** Memory of the relay with many idle connections, each of which has carried data both ways. */
async function idleConnections(relay: Process, count: number): Promise<void> {
  const before = memory(relay).anonymous;
  const data = new TextEncoder().encode("e".repeat(64));
  const connections: Deno.TcpConn[] = [];
  const buffer = new Uint8Array(64);
  for (let i = 0; i < count; i++) {
    const connection = await connect(relay.tcp);
    await connection.write(data);
    await connection.read(buffer);
    connections.push(connection);
  }
  const each = (memory(relay).anonymous - before) * 1024 / count;
  console.log(`  ${count} open connections: ${memoryText(relay)} (${each.toFixed(1)} kB each)`);
  for (const connection of connections) connection.close();
}

async function idleFlows(relay: Process, count: number): Promise<void> {
  const before = memory(relay).anonymous;
  const buffer = new Uint8Array(64);
  const sockets: Deno.DatagramConn[] = [];
  for (let i = 0; i < count; i++) {
    const socket = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port: 0 });
    await socket.send(new Uint8Array(64), relay.udp);
    await socket.receive(buffer);
    sockets.push(socket);
  }
  const each = (memory(relay).anonymous - before) * 1024 / count;
  console.log(`  ${count} UDP flows: ${memoryText(relay)} (${each.toFixed(1)} kB each)`);
  for (const socket of sockets) socket.close();
}

const endpoint = await start("./endpoint_process.ts");
console.log("direct");
await bulk(endpoint.tcp);
await latencies(endpoint);
const relay = await start("./relay_process.ts", `127.0.0.1:${endpoint.udp.port}`);
console.log(`relay (Deno ${Deno.version.deno}, started: ${memoryText(relay)})`);
await bulk(relay.tcp, relay);
await latencies(relay);
relay.kill();
// The buffers of the transfer are garbage that would count.
for (const measureIdle of [idleConnections, idleFlows]) {
  const fresh = await start("./relay_process.ts", `127.0.0.1:${endpoint.udp.port}`);
  await measureIdle(fresh, measureIdle === idleFlows ? FLOWS : Number(Deno.args[0] ?? 9900));
  fresh.kill();
}
endpoint.kill();
