/** The sections about the leader, the authority, serving certificates and injection targets. */
import { html, type Html } from '../../../server/status-page/html.ts';
import { objectKey } from '../../../json/kube-object.ts';
import {
  CERT_TONES,
  generationCells,
  generationTone,
  nextGeneration,
  endpointCounts,
  servingCertCells,
  staleCells,
  targetCells,
  type Tone,
} from '../status/cells.ts';
import { age, relative } from '../status/time-line.ts';
import type { GenerationRow } from '../status/report/authority.ts';
import type { ServingCertRow } from '../status/report/serving-certs.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { badge, listSection, mono, pieces, section, table, unreadParts } from './parts.ts';
import { timeLinePicture, type DrawnLifetime } from './time-line-picture.ts';

export function leaderSection({ leader }: StatusReport, now: Date): Html {
  const { state, holder = '', acquiredAt, renewedAt, replicas, unread } = leader;
  const leads = {
    Held: html`${mono(holder)} leads, for ${age(acquiredAt, now)}`,
    Free: html`${badge('no leader', 'bad')}`,
    Expired: html`${badge('no leader', 'bad')} ${mono(holder)} last renewed the Lease
    ${relative(renewedAt, now)}`,
    Unknown: undefined,
  }[state];
  const rows = replicas.map(({ name, process, ready, leads, node, image, restarts }) => ({
    cells: [
      mono(name),
      process,
      ready ? badge('ready', 'good') : badge('not ready', 'bad'),
      leads ? 'leads' : '',
      ...[restarts, node ?? '', image ?? ''],
    ],
    isProblem: !ready,
  }));
  return section(
    'leader',
    'Leader and replicas',
    html`<p class="lead">${leads}</p>`,
    unreadParts(unread),
    table('Pods of Gatehouse', ['Replica', 'Process', 'State', 'Leads', 'Restarts', 'Node', 'Image'], rows),
  );
}

export function authoritySection({ authority, servingCerts }: StatusReport, now: Date): Html {
  const { source, phase, generations, unread } = authority;
  const rows = generations.map((generation) => {
    const [, ...cells] = pieces(generationCells(generation, now));
    return { cells: [mono(generation.id), ...cells], isProblem: generation.expired };
  });
  const lifetimes = [
    ...generations.map((generation) => lifetimeOf(generation, now)),
    ...certLifetimes(servingCerts.items, now),
  ];
  return section(
    'authority',
    'Certificate authority',
    html`<p class="lead">
      ${
        phase === undefined
          ? source === 'ConfigMap'
            ? 'From the published bundle; the Secret has the states of the generations.'
            : 'Unknown.'
          : `${phase}${nextGeneration(generations, now)}`
      }
    </p>`,
    unreadParts(unread),
    timeLinePicture(lifetimes, now),
    table('Generations, newest first', ['Generation', 'State', 'From', 'To', 'Ends'], rows),
  );
}

function lifetimeOf(generation: GenerationRow, now: Date): DrawnLifetime {
  const { id, state, rotationAt } = generation;
  const tone = generationTone(generation);
  return drawn(`Generation ${id} · ${state}`, generation, tone, 'next generation', rotationAt, now);
}

/** Of certificates in the picture; the table lists more. */
const MAX_DRAWN = 8;

function certLifetimes(items: readonly ServingCertRow[], now: Date): readonly DrawnLifetime[] {
  return items
    .flatMap(({ namespace, name, notBefore, notAfter, renewAt, state }) =>
      notBefore === undefined || notAfter === undefined
        ? []
        : drawn(`${namespace}/${name}`, { notBefore, notAfter }, CERT_TONES[state], 'renewal', renewAt, now),
    )
    .slice(0, MAX_DRAWN);
}

function drawn(
  name: string,
  { notBefore, notAfter }: { readonly notBefore: string; readonly notAfter: string },
  tone: Tone,
  event: string,
  dueAt: string | undefined,
  now: Date,
): DrawnLifetime {
  const [from, to] = [new Date(notBefore), new Date(notAfter)];
  return {
    ...{ name, from, to, tone },
    note: `${to <= now ? 'ended' : 'ends'} ${relative(notAfter, now)}`,
    mark:
      dueAt === undefined ? undefined : { at: new Date(dueAt), what: `${event} due ${relative(dueAt, now)}` },
  };
}

export function servingCertsSection({ servingCerts: { unread, items } }: StatusReport, now: Date): Html {
  const rows = items.map((item) => {
    const { signedBy, message, state } = item;
    const signer = html`signed by ${signedBy === undefined ? 'an unknown key' : mono(signedBy)}`;
    return {
      cells: [...pieces(servingCertCells(item, now)), message ?? signer],
      isProblem: CERT_TONES[state] === 'bad',
    };
  });
  return listSection(
    'serving-certs',
    'Serving certificates',
    unread,
    'No Service requests a certificate.',
    rows,
    'Serving certificates by expiry',
    ['Secret', 'Service', 'State', 'Ends', 'Renewal', 'Signer'],
  );
}

/** Undefined if the leader has found no endpoint. */
export function servedCertsSection({ servedCerts }: StatusReport, now: Date): Html | undefined {
  const { unread, checkedAt, endpoints, items } = servedCerts;
  if (endpoints === undefined && unread.length === 0) return undefined;
  const rows = items.map((item) => ({ cells: pieces(staleCells(item, now)), isProblem: true }));
  const counts =
    endpoints === undefined ? '' : `${endpointCounts(endpoints)}, as of ${relative(checkedAt, now)}`;
  return section(
    'served-certs',
    'Certificates that servers present',
    html`<p class="lead">${counts}</p>`,
    unreadParts(unread),
    table(
      'Servers that present an earlier certificate than their Secret contains',
      ['Service', 'Secret', 'Stale since', 'Ends', 'Pods'],
      rows,
    ),
  );
}

export function targetsSection({ injectionTargets: { unread, items } }: StatusReport): Html {
  const rows = items.map((item) => {
    const cells = targetCells(item);
    return {
      cells: [objectKey(item), item.kind, ...pieces(cells), item.message ?? ''],
      isProblem: cells.some(({ tone }) => tone === 'bad'),
    };
  });
  return listSection(
    'targets',
    'Injection targets',
    unread,
    'No object requests a CA bundle.',
    rows,
    'Objects into which Gatehouse injects a CA bundle',
    ['Name', 'Kind', 'CA bundle', 'From', 'Why'],
  );
}
