/** In every process: pauses objects in the requests by which restorers create and update them. */
import type { RequestWorld } from '../../../admission/policy/world.ts';
import { ALLOWED, type Decision } from '../../../admission/review/decision.ts';
import { writes, type AdmissionRequest } from '../../../admission/review/request.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { verifiedDiff } from '../../../json/json-diff.ts';
import type { KubeObject } from '../../../json/kube-object.ts';
import { appliesTo, pausedWrite, rulesOfOpen } from '../../../restore/quiesce/plan.ts';
import type { Context } from '../../context.ts';
import { isCovered } from '../../namespaces.ts';
import type { ReadRecords } from '../../policies/read-records.ts';
import { RESTORE_WINDOWS } from '../../resources.ts';
import type { RestoreKinds } from '../restore-kinds.ts';

export type PauseWrites = ReturnType<typeof createPauseWrites>;

interface Sources {
  readonly windows: Pick<RestoreKinds['windows'], 'store'>;
  readonly records: Pick<ReadRecords, 'quiesce'>;
  readonly world: Pick<RequestWorld, 'mayRestore' | 'restoreEvidence'>;
}

export function createPauseWrites(
  { client, config, namespaces, log }: Pick<Context, 'client' | 'config' | 'namespaces' | 'log'>,
  { windows, records, world }: Sources,
) {
  const windowNamed = async (name: string, signal: AbortSignal): Promise<RestoreWindow | undefined> =>
    windows.store.get(name) ?? (await client.get<RestoreWindow>(RESTORE_WINDOWS, { name }, { signal }));

  async function patchFor(request: AdmissionRequest, signal: AbortSignal) {
    const sign = records.quiesce();
    const object = request.object as KubeObject | undefined; // the API server has decoded it
    if (sign === undefined || object === undefined) return [];
    const evidence = await world.restoreEvidence(request, signal);
    const names = evidence?.windows.map(({ window }) => window) ?? [];
    const found = await Promise.all(names.map((name) => windowNamed(name, signal)));
    const { group, resource } = request.resource;
    const rules = found
      .flatMap((window) => (window === undefined ? [] : rulesOfOpen(window)))
      .filter((rule) => rule.group === group && rule.resource === resource)
      .filter((rule) => appliesTo(rule, object, config.namespace));
    const write = { object, before: request.oldObject as KubeObject | undefined }; // as above
    const after = pausedWrite({ group, resource }, write, rules, sign);
    return request.object === undefined || after === undefined ? [] : verifiedDiff(request.object, after);
  }

  /** Never an error: the leader pauses what is missed here. */
  return async (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> => {
    const { operation, subResource, name, namespace, userInfo } = request;
    // The record is signed for a name, so an object with a generated one must wait for the leader.
    if (!writes(operation) || subResource !== '' || name === undefined) return ALLOWED;
    // The leader could not resume it there.
    if (!isCovered(namespaces, namespace) || !world.mayRestore(userInfo)) return ALLOWED;
    try {
      return { ...ALLOWED, patch: await patchFor(request, signal) };
    } catch (err) {
      log.warn({ err, uid: request.uid }, 'could not pause an object of a restore: the leader pauses it');
      return {
        ...ALLOWED,
        warnings: ['Gatehouse could not pause this object yet and pauses it within seconds'],
      };
    }
  };
}
