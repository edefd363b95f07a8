/** Findings as a table, as JSON and as YAML. docs/doctor.md promises the shape of the latter two. */
import { formatData, type OutputFormat } from '../../terminal/output.ts';
import { formatTable, type Colour } from '../../terminal/table.ts';
import type { Finding, Severity } from './finding.ts';

const COLOURS: Readonly<Record<Severity, Colour>> = {
  ok: 'green',
  warning: 'yellow',
  problem: 'red',
  unknown: 'grey',
};

export function formatFindings(findings: readonly Finding[], format: OutputFormat, colours: boolean): string {
  if (format !== 'table') return formatData({ summary: countsOf(findings), findings }, format);
  const rows = findings.map(({ check, severity, seen, next }) => ({
    cells: [{ text: check }, { text: severity, colour: COLOURS[severity] }],
    lines: [...seen.split('\n'), ...(next === undefined ? [] : `→ ${next}`.split('\n'))],
  }));
  const { problem, warning, unknown } = countsOf(findings);
  const summary = `Problems: ${problem}. Warnings: ${warning}. Checks that could not be made: ${unknown}.`;
  return `${formatTable(['CHECK', 'IS', 'SEEN'], rows, colours)}\n\n${summary}\n`;
}

function countsOf(findings: readonly Finding[]): Readonly<Record<Severity, number>> {
  const count = (severity: Severity) => findings.filter((one) => one.severity === severity).length;
  return { ok: count('ok'), warning: count('warning'), problem: count('problem'), unknown: count('unknown') };
}
