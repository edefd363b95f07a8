/** Who leads; the authority; what it signed; who trusts it. */
import { html, type Html } from '../../../server/status-page/html.ts';
import { age, minute, relative } from '../status/format/span.ts';
import type { GenerationRow } from '../status/report/authority.ts';
import type { InjectionTargetRow } from '../status/report/injection-targets.ts';
import type { ServingCertRow } from '../status/report/serving-certs.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { badge, mono, nothing, section, table, unreadParts, type Tone } from './parts.ts';
import { timeLinePicture, type DrawnLife } from './time-line-picture.ts';

export function leaderSection({ leader }: StatusReport, now: Date): Html {
  const { state, holder = '', acquiredAt, renewedAt, replicas, unread } = leader;
  const said = {
    Held: html`${mono(holder)} leads, for ${age(acquiredAt, now)}`,
    Free: html`${badge('nobody leads', 'bad')}`,
    Expired: html`${badge('nobody leads', 'bad')} ${mono(holder)} was last heard of
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
    html`<p class="lead">${said}</p>`,
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
            ? 'As published: the states of generations stand in a Secret.'
            : 'Nothing is known of it.'
          : `${phase}${next}`
      }
    </p>`,
    unreadParts(unread),
    timeLinePicture(
      'time-line',
      'From when to when certificates hold: generations of the authority, then the serving certificates that end first. A ring marks when each is due to be replaced.',
      [...generations.map((generation) => lifeOf(generation, now)), ...certLives(servingCerts.items, now)],
      now,
    ),
    table('Generations, newest first', ['Generation', 'State', 'From', 'To', 'Ends'], rows),
  );
}

function lifeOf(generation: GenerationRow, now: Date): DrawnLife {
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

/** In the picture; the table has more. */
const MOST_DRAWN = 8;

function certLives(items: readonly ServingCertRow[], now: Date): readonly DrawnLife[] {
  return items
    .flatMap((item): readonly DrawnLife[] => {
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
    .slice(0, MOST_DRAWN);
}

const endOf = (notAfter: string, now: Date): string =>
  `${new Date(notAfter) <= now ? 'ended' : 'ends'} ${relative(notAfter, now)}`;

export const CERT_TONES: Readonly<Record<ServingCertRow['state'], Tone>> = {
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
        renewAt === undefined && notAfter !== undefined ? 'with its CA' : relative(renewAt, now),
        message ?? html`signed by ${signedBy === undefined ? 'an unknown key' : mono(signedBy)}`,
      ],
      isProblem: CERT_TONES[state] === 'bad',
    };
  });
  return section(
    'serving-certs',
    html`Serving certificates <span class="count">${items.length}</span>`,
    unreadParts(unread),
    rows.length === 0 && unread.length === 0 ? nothing('No Service asks for one.') : undefined,
    table('By the time at which they end', ['Secret', 'Service', 'State', 'Ends', 'Renewal', 'Signer'], rows),
  );
}

export const TARGET_TONES: Readonly<Record<InjectionTargetRow['state'], Tone>> = {
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
    rows.length === 0 && unread.length === 0 ? nothing('No object asks for a CA bundle.') : undefined,
    table('Objects that carry a CA bundle for others', ['Name', 'Kind', 'CA bundle', 'From', 'Why'], rows),
  );
}
