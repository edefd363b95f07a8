/** What a RestoreWindow pauses, where and how long. */
import type { QuiesceRule } from '../../api/quiesce.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { tryParsePath, type ConcretePath } from '../../json/field-path.ts';
import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import type { JsonValue } from '../../json/json.ts';
import { covers, windowProblems, windowState, DEFAULT_PATH, quiesceProblems } from '../window.ts';

export interface ActiveRule extends GroupResource {
  readonly window: RestoreWindow;
  readonly rule: QuiesceRule;
  readonly pauses: boolean;
  readonly path: string;
  readonly keys: ConcretePath;
  readonly value: JsonValue;
}

/** How long objects stay paused after the end if no final sweep succeeds. */
const MAX_SWEEP_WAIT_MS = 15 * 60_000;

export function activeRules(window: RestoreWindow, now: Date, settleMs: number): readonly ActiveRule[] {
  const rules = window.spec.quiesce ?? [];
  if (rules.length === 0 || window.status?.phase === 'Refused' || quiesceProblems(rules).length > 0)
    return [];
  // The status says that it is open: two controllers would conflict over the first write of it.
  const isOpen = window.status?.openedAt !== undefined && windowState(window, now).kind === 'open';
  const pauses = isOpen && windowProblems(window).length === 0;
  if (!pauses && !isSettling(window, now, settleMs)) return [];
  return rules.map((rule) => {
    const { path = DEFAULT_PATH, value = 0 } = rule;
    const keys = tryParsePath(path)?.concrete?.keys ?? [];
    // the problems above leave plain values only
    return { ...kindOf(rule), window, rule, pauses, path, keys, value: value as JsonValue };
  });
}

function isSettling({ status = {} }: RestoreWindow, now: Date, settleMs: number): boolean {
  const { openedAt, closedAt, lastSweep } = status;
  if (openedAt === undefined) return false;
  if (closedAt === undefined) return true; // the leader writes it within seconds
  const isSwept =
    lastSweep !== undefined && !lastSweep.interim && Date.parse(lastSweep.startedAt) >= Date.parse(closedAt);
  return !isSwept && now.getTime() < Date.parse(closedAt) + settleMs + MAX_SWEEP_WAIT_MS;
}

export const kindOf = ({ apiGroup, resource }: QuiesceRule): GroupResource => ({ group: apiGroup, resource });

/** Never outside of the namespaces of the window. */
export function appliesTo(
  { window, rule, group, resource }: ActiveRule,
  { metadata = {} }: KubeObject,
  ownNamespace: string,
): boolean {
  const { namespace, labels = {} } = metadata;
  // Gatehouse and the backup tool must go on.
  if (namespace === ownNamespace) return false;
  if (namespace !== undefined && namespace === window.spec.source?.ref?.namespace) return false;
  if (rule.namespaces !== undefined && !rule.namespaces.some((one) => one === namespace)) return false;
  // `match.resources` names what the backup tool writes, not what is paused.
  const match = { ...window.spec.match, resources: [] };
  return (
    covers({ ...window.spec, match }, { group, resource, namespace }) &&
    Object.entries(rule.matchLabels).every(([key, value]) => labels[key] === value)
  );
}

/** Undefined: everywhere. */
export const placesOfRule = ({ rule, window }: Pick<ActiveRule, 'rule' | 'window'>) => {
  const { include = [] } = window.spec.match?.namespaces ?? {};
  return rule.namespaces ?? (include.length > 0 ? include : undefined);
};
