/** Prints rows as a table: the first column is left-aligned, the others are right-aligned. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, text] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, text.length);
    }
  }
  for (const row of rows) {
    const cells = row.map((text, column) => {
      const width = widths[column] ?? 0;
      return column === 0 ? text.padEnd(width) : text.padStart(width);
    });
    console.log(cells.join('   '));
  }
}

export const perSecond = (count: number, milliseconds: number): number => (count / milliseconds) * 1_000;

export const whole = (figure: number): string => Math.round(figure).toLocaleString('en');

export const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
