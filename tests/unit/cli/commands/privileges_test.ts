import assert from "node:assert/strict";
import { inheritedEnvironment, keptEnvironment } from "../../../../cli/commands/privileges.ts";

/** Runs a test with these variables in the environment. */
function withVariables(variables: Readonly<Record<string, string>>, test: () => void): void {
  const before = Object.keys(variables).map((name) => [name, Deno.env.get(name)] as const);
  try {
    for (const [name, value] of Object.entries(variables)) Deno.env.set(name, value);
    test();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
  }
}

Deno.test("a run keeps the variables that locate the API server and systemd, and no others", () => {
  const kept = {
    KUBERNETES_SERVICE_HOST: "10.96.0.1",
    KUBERNETES_SERVICE_PORT: "443",
    NOTIFY_SOCKET: "/run/notify",
    WATCHDOG_USEC: "30000000",
  };
  withVariables({ ...kept, AWS_SECRET: "s" }, () => {
    const read = keptEnvironment();
    for (const [name, value] of Object.entries(kept)) assert.equal(read(name), value);
    assert.equal(read("AWS_SECRET"), undefined);
  });
});

Deno.test("a plugin inherits the environment without the variables of the dynamic linker", () => {
  withVariables({ LD_LIBRARY_PATH: "/x", DYLD_INSERT_LIBRARIES: "/x", AWS_PROFILE: "edge", OLD_STYLE: "1" }, () => {
    const { LD_LIBRARY_PATH, DYLD_INSERT_LIBRARIES, AWS_PROFILE, OLD_STYLE } = inheritedEnvironment();
    assert.deepEqual([LD_LIBRARY_PATH, DYLD_INSERT_LIBRARIES, AWS_PROFILE, OLD_STYLE], [
      undefined,
      undefined,
      "edge",
      "1",
    ]);
  });
});
