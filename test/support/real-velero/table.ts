/** The table that the suites with a real Velero print: one line for each scenario. */
export interface Row {
  readonly scenario: string;
  readonly phase: string;
  readonly lost: string;
  /** Violations that the rehearsal predicted, that the report lists, and that exist. */
  readonly violations: string;
}

export function createTable() {
  const rows: Row[] = [];
  return {
    add: (row: Row): void => void rows.push(row),
    print: (): void => {
      const head: Row = {
        ...{ scenario: 'scenario', phase: 'Velero', lost: 'lost' },
        violations: 'predicted/reported/true',
      };
      const cells = [head, ...rows].map(({ scenario, phase, lost, violations }) => [
        scenario,
        phase,
        lost,
        violations,
      ]);
      const widths = cells.reduce(
        (wide, row) => row.map((cell, at) => Math.max(cell.length, wide[at] ?? 0)),
        [0],
      );
      const lines = cells.map((row) =>
        row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join(' | ')
          .trimEnd(),
      );
      console.log(lines.join('\n'));
    },
  };
}
