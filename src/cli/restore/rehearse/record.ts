/** Keeps the result of a rehearsal in a ConfigMap of Gatehouse's namespace, and reports with an Event what is worse. */
import { messageOf } from '../../../json/error-message.ts';
import { createEventRecorder } from '../../../kube/events.ts';
import { configMaps } from '../../../kube/well-known.ts';
import type { KubeObject } from '../../../json/kube-object.ts';
import {
  noteOf,
  parseData,
  rehearsalResult,
  REHEARSAL_CONFIGMAP,
  toData,
} from '../../../restore/rehearsal-result.ts';
import type { UserCluster } from '../../connect.ts';
import type { FoundBackup } from '../backup/newest-backup.ts';
import { basename } from 'node:path';
import { isProblem, type Finding } from './findings.ts';

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const COMPONENT = 'deploy/components/restore-rehearsal';

/** @throws Error if the ConfigMap does not exist, or has changed meanwhile */
export async function recordResult(
  { client, now }: Pick<UserCluster, 'client' | 'now'>,
  namespace: string,
  { path, takenAt }: FoundBackup,
  findings: readonly Finding[],
): Promise<void> {
  const name = REHEARSAL_CONFIGMAP;
  const stored = await client.get<ConfigMap>(configMaps, { namespace, name });
  if (stored === undefined)
    throw new Error(`the ConfigMap ${namespace}/${name} does not exist: install ${COMPONENT}`);
  const before = parseData(stored.data);
  const problems = findings.filter(isProblem).map(({ reason, object }) => `${reason} ${object}`);
  const backup = basename(path, '.tar.gz');
  const result = rehearsalResult({ finishedAt: now(), backup, backupTakenAt: takenAt, problems }, before);
  await client.replace(configMaps, { ...stored, data: toData(result) });
  const note = noteOf(result, before);
  if (note === undefined) return;
  const { record, flush } = createEventRecorder({
    ...{ client, component: 'gatehouse', instance: 'gatehouse-restore-rehearsal' },
    log: {
      warn: ({ err }: { readonly err?: unknown }, message) => {
        console.error(`warning: ${message}: ${messageOf(err)}`);
      },
    },
  });
  const { uid } = stored.metadata ?? {};
  record({ ...note, regarding: { apiVersion: 'v1', kind: 'ConfigMap', namespace, name, uid } });
  await flush();
}
