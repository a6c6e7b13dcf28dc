/** The endpoint of the relay's benchmark: swallows a connection that starts with `s`, echoes others, and datagrams. */
const tcp = Deno.listen({ hostname: "127.0.0.1", port: 0 });
const { port } = tcp.addr as Deno.NetAddr;
const udp = Deno.listenDatagram({ transport: "udp", hostname: "127.0.0.1", port });
console.log(JSON.stringify({ tcp: port, udp: port }));

async function serve(connection: Deno.TcpConn): Promise<void> {
  connection.setNoDelay();
  let buffer = new Uint8Array(64);
  let isSink = false;
  for (let isFirst = true;; isFirst = false) {
    const bytes = await connection.read(buffer);
    if (bytes === null) break;
    if (isFirst) isSink = buffer[0] === "s".charCodeAt(0);
    if (isSink && buffer.length === 64) buffer = new Uint8Array(1 << 20);
    if (!isSink) await connection.write(buffer.subarray(0, bytes));
  }
  connection.close();
}

async function echoDatagrams(): Promise<void> {
  const buffer = new Uint8Array(65_536);
  for (;;) {
    const [data, from] = await udp.receive(buffer);
    await udp.send(data, from);
  }
}

void echoDatagrams();
for await (const connection of tcp) serve(connection).catch(() => connection.close());
