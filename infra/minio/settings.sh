# What up.sh and down.sh agree on; each may be set before.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${MINIO_PORT:=9000}"
: "${MINIO_DATA:=$root/.minio}"
: "${MINIO_BUCKET:=tierlog}"
export MINIO_ROOT_USER=${MINIO_ROOT_USER:-tierlog}
export MINIO_ROOT_PASSWORD=${MINIO_ROOT_PASSWORD:-tierlog-local}
export MINIO_ENDPOINT=http://127.0.0.1:$MINIO_PORT
export MINIO_BUCKET
pid_file=$MINIO_DATA/minio.pid

running() {
    [ -f "$pid_file" ] || return 1
    # A number that went to another process in the meantime is not ours. Wide, or long paths are cut off;
    # no pipe: a reader that ends early would fail it.
    case "$(ps -ww -o args= -p "$(cat "$pid_file")" 2>/dev/null)" in
        *minio*" server $MINIO_DATA/data"*) return 0 ;;
        *) return 1 ;;
    esac
}
