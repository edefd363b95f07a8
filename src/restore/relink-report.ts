/** What became of lost owners, as it stands in a RestoreWindow's status. */
import type { Condition } from '../json/kube-object.ts';
import type { RelinkItem } from '../api/restore-findings.ts';
import type { RestoreWindowStatus } from '../api/restore-window.ts';
import { LISTED } from './report.ts';

type RelinkStatus = NonNullable<RestoreWindowStatus['relink']>;

/** @param before of earlier sweeps: what they linked is not found again */
export function toRelinkStatus(
  before: Pick<RelinkStatus, 'linked' | 'items'> | undefined,
  items: readonly RelinkItem[],
): RelinkStatus {
  const open = items.filter(({ result }) => result !== 'Linked');
  const linked = (before?.linked ?? 0) + items.length - open.length;
  const failed = open.filter(({ result }) => result === 'Failed').length;
  // A link that lacks something says so in its message.
  const remarkable = [...(before?.items ?? []), ...items].filter(
    ({ result, message }) => result === 'Linked' && message !== undefined,
  );
  return {
    found: linked + open.length,
    linked,
    skipped: open.length - failed,
    failed,
    items: [...open.toSorted(byPlace), ...remarkable.toSorted(byPlace)].slice(0, LISTED),
  };
}

/** The condition `OwnersRelinked`. True also where nothing was lost, or the backup tool has linked everything itself. */
export function relinkCondition({
  found,
  linked,
  skipped,
  failed,
}: RelinkStatus): Pick<Condition, 'type' | 'status' | 'reason' | 'message'> {
  const condition = (status: Condition['status'], reason: string, message: string) =>
    ({ type: 'OwnersRelinked', status, reason, message }) as const;
  if (failed > 0)
    return condition(
      'False',
      'LinkFailed',
      `${failed} of ${found} owner references could not be linked; see status.relink`,
    );
  if (skipped > 0)
    return condition(
      'False',
      'NotAllLinked',
      `${skipped} of ${found} owner references were left alone; see status.relink`,
    );
  return condition('True', 'Linked', `${linked} owner references were linked again`);
}

function byPlace(a: RelinkItem, b: RelinkItem): number {
  const place = ({ object, owner }: RelinkItem) =>
    [object.kind, object.namespace ?? '', object.name, owner.kind, owner.name].join('\u0000');
  const [first, second] = [place(a), place(b)];
  return first < second ? -1 : first > second ? 1 : 0;
}
