/** The sections about the leader, the authority, serving certificates and injection targets. */
import { html, type Html } from '../../../server/status-page/html.ts';
import { age, minute, relative } from '../status/time-line.ts';
import type { GenerationRow } from '../status/report/authority.ts';
import type { InjectionTargetRow } from '../status/report/injection-targets.ts';
import type { ServingCertRow } from '../status/report/serving-certs.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { badge, mono, nothing, section, table, unreadParts, type Tone } from './parts.ts';
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
  const rows = replicas.map(({ name, ready, leads, node, image, restarts }) => ({
    cells: [
      mono(name),
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
    table('Pods of Gatehouse', ['Replica', 'State', 'Leads', 'Restarts', 'Node', 'Image'], rows),
  );
}

const GENERATION_TONES: Readonly<Record<GenerationRow['state'], Tone>> = {
  pending: 'warn',
  active: 'good',
  retiring: 'rest',
  trusted: 'good',
};

const toneOf = ({ state, expired }: GenerationRow): Tone => (expired ? 'bad' : GENERATION_TONES[state]);

export function authoritySection({ authority, servingCerts }: StatusReport, now: Date): Html {
  const { source, phase, generations, unread } = authority;
  const { rotationAt } = generations.find(({ state }) => state === 'active') ?? {};
  const next = rotationAt === undefined ? '' : `; the next generation is due ${relative(rotationAt, now)}`;
  const rows = generations.map((generation) => ({
    cells: [
      mono(generation.id),
      badge(generation.expired ? `${generation.state}, expired` : generation.state, toneOf(generation)),
      minute(generation.notBefore),
      minute(generation.notAfter),
      relative(generation.notAfter, now),
    ],
    isProblem: generation.expired,
  }));
  return section(
    'authority',
    'Certificate authority',
    html`<p class="lead">
      ${
        phase === undefined
          ? source === 'ConfigMap'
            ? 'From the published bundle; the Secret has the states of the generations.'
            : 'Unknown.'
          : `${phase}${next}`
      }
    </p>`,
    unreadParts(unread),
    timeLinePicture(
      'time-line',
      'Lifetimes of the generations of the authority, then of the serving certificates that expire first. A ring marks when each is due for replacement.',
      [
        ...generations.map((generation) => lifetimeOf(generation, now)),
        ...certLifetimes(servingCerts.items, now),
      ],
      now,
    ),
    table('Generations, newest first', ['Generation', 'State', 'From', 'To', 'Ends'], rows),
  );
}

function lifetimeOf(generation: GenerationRow, now: Date): DrawnLifetime {
  const { id, state, notBefore, notAfter, rotationAt } = generation;
  return {
    name: `Generation ${id} · ${state}`,
    note: endOf(notAfter, now),
    from: new Date(notBefore),
    to: new Date(notAfter),
    tone: toneOf(generation),
    mark:
      rotationAt === undefined
        ? undefined
        : { at: new Date(rotationAt), what: `next generation due ${relative(rotationAt, now)}` },
  };
}

/** Of certificates in the picture; the table lists more. */
const MAX_DRAWN = 8;

function certLifetimes(items: readonly ServingCertRow[], now: Date): readonly DrawnLifetime[] {
  return items
    .flatMap((item): readonly DrawnLifetime[] => {
      const { namespace, name, notBefore, notAfter, renewAt, state } = item;
      if (notBefore === undefined || notAfter === undefined) return [];
      return [
        {
          name: `${namespace}/${name}`,
          note: endOf(notAfter, now),
          from: new Date(notBefore),
          to: new Date(notAfter),
          tone: CERT_TONES[state],
          mark:
            renewAt === undefined
              ? undefined
              : { at: new Date(renewAt), what: `renewal due ${relative(renewAt, now)}` },
        },
      ];
    })
    .slice(0, MAX_DRAWN);
}

const endOf = (notAfter: string, now: Date): string =>
  `${new Date(notAfter) <= now ? 'ended' : 'ends'} ${relative(notAfter, now)}`;

const CERT_TONES: Readonly<Record<ServingCertRow['state'], Tone>> = {
  Valid: 'good',
  RenewalDue: 'warn',
  Overdue: 'bad',
  Expired: 'bad',
  UnknownSigner: 'bad',
  Unusable: 'bad',
};

export function servingCertsSection({ servingCerts: { unread, items } }: StatusReport, now: Date): Html {
  const rows = items.map((item) => {
    const { namespace, name, service, state, notAfter, renewAt, signedBy, message } = item;
    return {
      cells: [
        `${namespace}/${name}`,
        service,
        badge(state, CERT_TONES[state]),
        relative(notAfter, now),
        renewAt === undefined && notAfter !== undefined ? 'with the CA' : relative(renewAt, now),
        message ?? html`signed by ${signedBy === undefined ? 'an unknown key' : mono(signedBy)}`,
      ],
      isProblem: CERT_TONES[state] === 'bad',
    };
  });
  return section(
    'serving-certs',
    html`Serving certificates <span class="count">${items.length}</span>`,
    unreadParts(unread),
    rows.length === 0 && unread.length === 0 ? nothing('No Service requests a certificate.') : undefined,
    table(
      'Serving certificates by expiry',
      ['Secret', 'Service', 'State', 'Ends', 'Renewal', 'Signer'],
      rows,
    ),
  );
}

const TARGET_TONES: Readonly<Record<InjectionTargetRow['state'], Tone>> = {
  Current: 'good',
  Stale: 'bad',
  Invalid: 'bad',
  Empty: 'rest',
  Unknown: 'warn',
};

export function targetsSection({ injectionTargets: { unread, items } }: StatusReport): Html {
  const rows = items.map(({ kind, namespace, name, state, source, message }) => ({
    cells: [
      namespace === undefined ? name : `${namespace}/${name}`,
      kind,
      badge(state, TARGET_TONES[state]),
      source,
      message ?? '',
    ],
    isProblem: TARGET_TONES[state] === 'bad',
  }));
  return section(
    'targets',
    html`Injection targets <span class="count">${items.length}</span>`,
    unreadParts(unread),
    rows.length === 0 && unread.length === 0 ? nothing('No object requests a CA bundle.') : undefined,
    table(
      'Objects into which Gatehouse injects a CA bundle',
      ['Name', 'Kind', 'CA bundle', 'From', 'Why'],
      rows,
    ),
  );
}
