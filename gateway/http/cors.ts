/** Which pages may call the gateway. */
import cors from '@fastify/cors';
import type { FastifyInstance } from 'fastify';
import type { LiveSettings } from '../../shared/settings/live-settings.ts';
import { headers } from './response-headers.ts';

const corsOptions = {
  methods: ['GET', 'PUT', 'PATCH', 'POST', 'DELETE'],
  maxAge: 600,
  // OPTIONS without a preflight's headers goes to its route, which says what the path takes.
  strictPreflight: false,
  exposedHeaders: Object.keys(headers),
};

/**
 * Lets pages of CORS_ORIGINS call the gateway; `*` stands for all. With none, or none any more, the
 * plug-in passes requests by.
 */
export async function allowOrigins(app: FastifyInstance, settings: LiveSettings): Promise<void> {
  await app.register(cors, {
    delegator: (_request, callback) => {
      const origins = settings.current.cors_origins;
      // Of a list with `*` in it the plug-in takes that.
      callback(null, { ...corsOptions, origin: origins.length === 0 ? false : [...origins] });
    },
  });
}
