import assert from "node:assert/strict";
import { COMMANDS } from "../../../cli/commands/mod.ts";
import { partOfInstalled, withInstalled } from "../../../config/arguments.ts";

const part = (...args: readonly string[]) => partOfInstalled(args, COMMANDS);
const SERVICE = { configuration: "/c.yaml", words: ["--source=file:/m", "--control-socket=/s"] };

Deno.test("commands without flags use the installed service; run and install never do", () => {
  for (const command of ["check", "diff", "render"]) assert.equal(part(command), "configuration", command);
  assert.equal(part("get", "services"), "configuration");
  assert.equal(part("explain", "10.0.0.1:80", "--from", "pod", "-o", "json", "-v=4"), "configuration");
  for (const command of ["status", "top", "events", "uninstall"]) assert.equal(part(command), "socket", command);
  for (const command of ["run", "install", "serve", "export", "watch", "version"]) {
    assert.equal(part(command), undefined);
  }
  assert.equal(part(), undefined);
  assert.equal(part("--cleanup"), undefined);
});

Deno.test("a flag that selects another configuration, proxy or machine excludes the installed service", () => {
  assert.equal(part("check", "--config", "/other.yaml"), undefined);
  assert.equal(part("diff", "--source=file:/m"), undefined);
  assert.equal(part("check", "--proxy_mode", "nftables"), undefined);
  assert.equal(part("check", "--serve"), undefined);
  assert.equal(part("top", "--control-socket=/x"), undefined);
  assert.equal(part("uninstall", "--root", "/mnt"), undefined);
  assert.equal(part("uninstall", "--now", "--cleanup"), "socket");
  assert.equal(part("check", "--help"), undefined);
});

Deno.test("the flags of the installed service come before the command's own", () => {
  assert.deepEqual(withInstalled(["get", "services", "-o", "json"], "configuration", SERVICE), [
    ...["get", "--config=/c.yaml", "--source=file:/m", "--control-socket=/s", "services", "-o", "json"],
  ]);
  assert.deepEqual(withInstalled(["top", "--once"], "socket", SERVICE), ["top", "--control-socket=/s", "--once"]);
});
