/** Aligns the columns of a table; the first row is the heading, which is underlined. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => [...row[column] ?? ""].length)));
  const line = (row: readonly string[]) => row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ").trimEnd();
  const [heading, ...body] = rows;
  return [line(heading!), widths.map((width) => "─".repeat(width)).join("  "), ...body.map(line)].join("\n");
}
