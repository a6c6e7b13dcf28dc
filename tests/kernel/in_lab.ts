import { createLab, type Lab } from "../../demo/lab.ts";
import { isIsolated } from "../../demo/isolate.ts";

/** Runs a test in a lab of its own. Throws where it would be made of the machine's own network. */
export async function inLab(test: (lab: Lab) => Promise<void>): Promise<void> {
  if (!isIsolated()) throw new Error("this test changes the network: run it by `deno task test:kernel`");
  const lab = await createLab();
  try {
    await test(lab);
  } finally {
    await lab.close();
  }
}
