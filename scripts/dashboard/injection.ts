import { highest, of, panel, type Row } from './panel.ts';

export const injection: Row = {
  title: 'CA bundles in other objects',
  panels: [
    panel('Targets by state', 'short', 'Every target without injection has an Event with the reason.', {
      '{{kind}}: {{state}}': highest('kind, state', 'gatehouse_cabundle_targets'),
      '{{kind}}: cannot be listed': `${highest('kind', 'gatehouse_cabundle_unreadable_kinds')} == 1`,
    }),
    panel('Longest wait for a bundle', 's', 'Calls to this webhook fail until it has the bundle.', {
      stale: `max(${of('gatehouse_cabundle_stale_seconds')})`,
    }),
  ],
};
