import { defineHandler } from '@gatehouse-dev/gatehouse';

interface Server {
  metadata: { name?: string; namespace: string; annotations?: Record<string, string> };
  spec: { datacenter: string; tier?: string; units?: number };
}

interface Datacenter {
  spec?: { capacity?: number };
}

/** The servers of a datacenter fit into it, all together. */
export default defineHandler<Server>({
  match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'] },
  reads: ['servers.infra.example.com', 'datacenters.infra.example.com'],

  mutate(draft) {
    draft.spec.units ??= draft.spec.tier === 'gold' ? 4 : 1;
  },

  async validate(server, context) {
    const datacenter = await context.get<Datacenter>('datacenters', { name: server.spec.datacenter });
    const capacity = datacenter?.spec?.capacity;
    if (capacity === undefined) return;

    const servers = await context.list<Server>('servers', { allNamespaces: true });
    const isOther = ({ metadata: { namespace, name } }: { metadata: Server['metadata'] }) =>
      namespace !== server.metadata.namespace || name !== server.metadata.name;
    const used = servers
      .filter((peer) => peer.spec.datacenter === server.spec.datacenter && isOther(peer))
      .reduce((sum, { spec }) => sum + (spec.units ?? 1), 0);
    const free = capacity - used;
    const wanted = server.spec.units ?? 1;
    if (wanted > free) {
      context.deny(`${server.spec.datacenter} has ${free} of ${capacity} units left`, {
        field: 'spec.units',
      });
    } else if (wanted === free) {
      context.warn(`${server.spec.datacenter} is full now`);
    }
  },
});
