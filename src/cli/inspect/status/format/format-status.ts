/** The whole report, for people. */
import { printable } from '../../../../json/printable.ts';
import { paint } from '../../../terminal/table.ts';
import type { StatusReport } from '../report/status-report.ts';
import { SECTIONS } from './sections.ts';

export function formatStatus(report: StatusReport, colours: boolean): string {
  const { server, version, namespace, checkedAt } = report;
  const look = { colours, now: new Date(checkedAt) };
  const blocks = [
    [printable(`Gatehouse in namespace ${namespace} of ${server} (${version}), ${checkedAt}`)],
    ...SECTIONS.map((section) => section(report, look)),
    verdict(report, colours),
  ];
  return `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`;
}

function verdict({ attention, healthy }: StatusReport, colours: boolean): readonly string[] {
  if (healthy) return [paint({ text: 'Everything is fine.', colour: 'green' }, colours)];
  if (attention.length === 0)
    return [paint({ text: 'Nothing is wrong in what could be read.', colour: 'yellow' }, colours)];
  return [
    paint({ text: 'This needs attention:', colour: 'red' }, colours),
    ...attention.map(({ object, message }) => printable(`  - ${object}: ${message}`)),
  ];
}
