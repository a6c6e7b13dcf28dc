/** Programs that answer as Sluice does: one of root keeps another Sluice from starting, one of another user does not. */
import assert from "node:assert/strict";
import { program, startSluice } from "../../demo/sluice.ts";
import { systemClock } from "../../platform/clock.ts";
import { inLab } from "./in_lab.ts";

/** Answers as a Sluice does at an address that no Sluice takes by default, as the user `nobody`; prints a line once it listens. */
const IMITATION = `
import os, socket
os.setuid(65534)
server = socket.create_server(("::1", 10249), family=socket.AF_INET6)
print("listens", flush=True)
while True:
    client, _ = server.accept()
    body = "nftables" if b"/proxyMode" in client.recv(1000) else '{"lastUpdated": "", "currentTime": ""}'
    client.send(f"HTTP/1.1 200 OK\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
    client.close()
`;

Deno.test("a running Sluice stops a second one and a cleanup, and a program of another user stops neither", () =>
  inLab(async (lab) => {
    const example = new URL("../../deploy/example/", import.meta.url).pathname;
    const imitation = lab.start("node", ["python3", "-c", IMITATION], { stdout: "piped", stderr: "null" });
    const printed = imitation.stdout.getReader();
    await printed.read();
    const sluice = startSluice(lab, example, systemClock);
    try {
      await sluice.ready();
      assert.match(sluice.log(), /another service proxy runs on this node .*answersOn="?\[::1\]:10249/);
      const second = [...program(), "--source", `file:${example}`, "--control-socket="];
      await assert.rejects(lab.run("node", second), /another sluice is running: it answers on 127\.0\.0\.1:10256/);
      const cleanups = [["--cleanup"], ["--cleanup", "--only-own"]];
      for (const flags of cleanups) {
        await assert.rejects(lab.run("node", [...program(), ...flags]), /sluice is still running: .*\(stop it first\)/);
      }
      await sluice.ready();
      assert.doesNotMatch(sluice.log(), /repaired rules/);
    } finally {
      imitation.kill("SIGKILL");
      await printed.cancel();
      await imitation.status;
      await sluice.stop();
    }
  }));
