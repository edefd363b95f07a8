/** What a restore lost, decided by comparing stored objects before and after it, without product code. */
import { keyOf, type KubeObject } from '../../../src/json/kube-object.ts';
import type { Application } from '../restore-kinds.ts';
import type { RestoreSpec } from './runs.ts';

export type Snapshot = readonly (KubeObject & Partial<Pick<Application, 'spec' | 'status'>>)[];

type Compared = Pick<RestoreSpec, 'namespaceMapping' | 'restoreStatus'>;

/** One line for each object that is missing, or that has another spec, uid, or other owners. */
export function lostOf(
  before: Snapshot,
  after: Snapshot,
  { namespaceMapping = {}, restoreStatus }: Compared,
): readonly string[] {
  const mapped = (object: KubeObject): string => {
    const { namespace } = object.metadata ?? {};
    const key = keyOf(object).split('/').at(-1) ?? '';
    return `${object.kind ?? ''} ${namespace === undefined ? '' : `${namespaceMapping[namespace] ?? namespace}/`}${key}`;
  };
  const found = new Map(after.map((object) => [`${object.kind ?? ''} ${keyOf(object)}`, object]));
  const renamed = (text: string) =>
    before.reduce((done, object) => {
      const uid = found.get(mapped(object))?.metadata?.uid ?? 'of a missing object';
      return done.replaceAll(object.metadata?.uid ?? '', uid);
    }, text);
  return before.flatMap((object) => {
    const name = mapped(object);
    const restored = found.get(name);
    if (restored === undefined) return [`${name} is missing`];
    const differs = (field: string, read: (one: Snapshot[number]) => unknown) =>
      renamed(JSON.stringify([read(object)])) === JSON.stringify([read(restored)])
        ? []
        : [`${name} has another ${field}`];
    return [
      ...differs('spec', ({ spec }) => spec),
      ...differs('owner', ({ metadata }) => metadata?.ownerReferences ?? []),
      ...(restoreStatus === undefined ? [] : differs('status', (one) => one.status)),
    ];
  });
}
