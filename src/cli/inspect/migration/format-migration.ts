/** The inventory as text: what could not be read, the objects, and the verdict. */
import { objectKey } from '../../../json/kube-object.ts';
import { printable } from '../../../json/printable.ts';
import { formatTable, paint } from '../../terminal/output.ts';
import { describeUnread } from '../read-cluster/reading.ts';
import type { MigrationReport } from './migration-report.ts';

const COLOURS = { Done: 'green', Ready: 'yellow', Blocked: 'red', Unknown: 'grey' } as const;

export function formatMigration(report: MigrationReport, colours: boolean): string {
  const { server, version, namespace, checkedAt, migration, items, unread, ready } = report;
  const rows = items.map((item) => ({
    cells: [item.kind, objectKey(item), item.owner ?? '–', { text: item.state, colour: COLOURS[item.state] }],
    lines: item.changes,
  }));
  const counts = Object.entries(COLOURS).flatMap(([state, colour]) => {
    const count = items.filter((item) => item.state === state).length;
    return count === 0 ? [] : [paint({ text: `${count} ${state}`, colour }, colours)];
  });
  const verdict = ready
    ? { text: `Gatehouse can replace ${migration} for these objects.`, colour: 'green' as const }
    : { text: `Gatehouse cannot replace ${migration} for all objects yet.`, colour: 'yellow' as const };
  return [
    printable(
      `From ${migration} to Gatehouse in namespace ${namespace} of ${server} (${version}), ${checkedAt}`,
    ),
    '',
    `Objects that use ${migration}: ${counts.length === 0 ? 'none' : counts.join(', ')}`,
    ...unread.map((part) => printable(`  (${describeUnread(part)})`)),
    ...(rows.length === 0
      ? []
      : formatTable(['KIND', 'NAME', 'FILLED BY', 'STATE', 'IF GATEHOUSE TAKES OVER'], rows, colours)
          .split('\n')
          .map((line) => `  ${line}`)),
    ...['', paint(verdict, colours), ''],
  ].join('\n');
}
