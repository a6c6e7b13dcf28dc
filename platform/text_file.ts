/** Text files of a limited size: their authors may not be trusted. */

/** Reads the text of a file. Throws Deno's error, or an Error if the file is larger than `mostBytes` or a device. */
export async function readTextWithin(path: string, mostBytes: number): Promise<string> {
  requireWithin(await Deno.stat(path), mostBytes);
  return await Deno.readTextFile(path);
}

/** Reads the text of a file like `readTextWithin`, synchronously. */
export function readTextWithinSync(path: string, mostBytes: number): string {
  requireWithin(Deno.statSync(path), mostBytes);
  return Deno.readTextFileSync(path);
}

function requireWithin({ size, isCharDevice, isBlockDevice }: Deno.FileInfo, mostBytes: number): void {
  if (isCharDevice || isBlockDevice) throw new Error("it is a device, not a file");
  if (size > mostBytes) throw new Error(`it has ${size} bytes, more than the limit of ${mostBytes / 2 ** 20} MiB`);
}
