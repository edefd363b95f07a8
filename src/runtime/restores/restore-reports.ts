/** RestoreReports in the API server: as many as a report needs, and none that says what was so before. */
import { isDeepStrictEqual } from 'node:util';

import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../../api/group.ts';
import type { RestoreReport, RestoreReportSpec } from '../../api/restore-report.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { RESTORE_REPORTS } from '../resources.ts';

const WINDOW_LABEL = 'gatehouse.dev/restore-window';

export function createWriteReports(
  client: Pick<KubeClient, 'listAll' | 'create' | 'replace' | 'delete'>,
): (window: RestoreWindow, reports: readonly RestoreReportSpec[], signal: AbortSignal) => Promise<void> {
  return async (window, reports, signal) => {
    const { name = '' } = window.metadata;
    const labelSelector = `${WINDOW_LABEL}=${labelOf(name)}`;
    const listed = await client.listAll<RestoreReport & KubeObject>(RESTORE_REPORTS, {
      labelSelector,
      signal,
    });
    const mine = new Map(
      listed.items.filter(({ spec }) => spec.window === name).map((report) => [report.metadata.name, report]),
    );
    for (const spec of reports) {
      const wanted = toReport(window, spec);
      const live = mine.get(wanted.metadata.name);
      mine.delete(wanted.metadata.name);
      if (live === undefined) await client.create(RESTORE_REPORTS, wanted, { signal });
      else if (!isDeepStrictEqual(live.spec, spec))
        await client.replace(RESTORE_REPORTS, { ...live, spec }, { signal });
    }
    for (const { metadata } of mine.values())
      await client.delete(RESTORE_REPORTS, { name: metadata.name ?? '' }, { signal });
  };
}

/** Goes with its window. */
function toReport({ metadata, apiVersion, kind }: RestoreWindow, spec: RestoreReportSpec) {
  const { name = '', uid = '' } = metadata;
  return {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: 'RestoreReport',
    metadata: {
      name: `${name}-${spec.part}`,
      labels: { [WINDOW_LABEL]: labelOf(name), [EXCLUDE_FROM_BACKUP_LABEL]: 'true' },
      ownerReferences: [
        { apiVersion: apiVersion ?? `${GROUP}/${VERSION}`, kind: kind ?? 'RestoreWindow', name, uid },
      ],
    },
    spec,
  };
}

/** Values of labels have 63 characters at most. */
const labelOf = (name: string): string => name.slice(0, 63).replace(/[-.]+$/, '');
